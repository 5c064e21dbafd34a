"""What a graph is run on in checks: rows of its data set, and random ones within its ranges."""

from __future__ import annotations

import itertools
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gateway.models import versions
from gateway.models.declaration import Declaration
from gateway.models.declaration.canary import CanaryTensor
from gateway.models.declaration.tensors import DeclaredDatatype, RangeDeclaration, TensorDeclaration
from gateway.models.failures import WrongModel
from gateway.models.sessions import Array, Feed

LABEL = "label"
_MOST_CELLS = 1024  # of a random batch, rows times the largest axis, so that it takes no second
_NUMPY = {
    **{d: np.dtype(d.value.lower()) for d in DeclaredDatatype if "INT" in d.value},
    DeclaredDatatype.BOOL: np.dtype(bool),
    DeclaredDatatype.FP16: np.dtype(np.float16),
    DeclaredDatatype.FP32: np.dtype(np.float32),
    DeclaredDatatype.FP64: np.dtype(np.float64),
    DeclaredDatatype.BYTES: np.dtype(object),
}


@dataclass(frozen=True, slots=True)
class Sample:
    """A batch for the graph, and what it is called when something is wrong with it."""

    name: str
    feed: Feed


@dataclass(frozen=True, slots=True)
class DataSet:
    batches: Sequence[Sample]
    labels: Array | None = None

    @property
    def rows(self) -> int:
        return sum(len(next(iter(sample.feed.values()))) for sample in self.batches)


def data_set(directory: Path, declared: Declaration) -> DataSet:
    """The declared data set, cut into batches of the usual size."""
    assert declared.accuracy is not None
    path = versions.sample_file(directory, declared.accuracy.data)
    if not path.exists():
        path = directory / declared.accuracy.data  # of all versions
    if not path.exists():
        raise WrongModel(f"{path}: the data set of the accuracy gate is not there")
    if path.suffix == ".npz":
        return _arrays(path, declared)
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    cut = Cutter(directory, declared)
    size = usual_batch(declared)
    groups = [lines[at : at + size] for at in range(0, len(lines), size)]
    names = (f"lines {at * size + 1} to {at * size + len(g)}" for at, g in enumerate(groups))
    return DataSet([Sample(n, cut(g)) for n, g in zip(names, groups, strict=True)])


def _arrays(path: Path, declared: Declaration) -> DataSet:
    try:
        with np.load(path, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
    except (ValueError, OSError, zipfile.BadZipFile) as exc:
        raise WrongModel(f"{path}: is no whole .npz of arrays") from exc
    labels = arrays.pop(LABEL, None)
    if set(arrays) != set(declared.graph_inputs):
        wanted = ", ".join(sorted(declared.graph_inputs))
        raise WrongModel(f"{path}: must hold {wanted} and may hold {LABEL}")
    count, size = len(next(iter(arrays.values()))), usual_batch(declared)
    cuts = [slice(at, min(at + size, count)) for at in range(0, count, size)]
    samples = [
        Sample(f"rows {cut.start} to {cut.stop}", {n: a[cut] for n, a in arrays.items()})
        for cut in cuts
    ]
    return DataSet(samples, labels)


def usual_batch(declared: Declaration) -> int:
    return 1 if declared.batch is None else declared.batch.opt


class Cutter:
    """Texts to the graph's inputs: ids of word pieces, and whichever of their masks it takes."""

    def __init__(self, directory: Path, declared: Declaration) -> None:
        text = declared.graph.text if declared.graph else None
        if text is None:
            raise WrongModel(f"{directory}: lines of text need graph.text in model.yaml")
        from tokenizers import Tokenizer  # only models that take text need it

        path = versions.current(directory) / text.tokenizer
        if not path.exists():
            raise WrongModel(f"{path}: the tokenizer is not there")
        self._tokenizer = Tokenizer.from_file(str(path))
        self._tokenizer.enable_truncation(declared.axes[text.axis].max)
        pad = _padding(self._tokenizer)
        self._tokenizer.enable_padding(pad_id=self._tokenizer.token_to_id(pad) or 0, pad_token=pad)
        self._types = {n: numpy_dtype(t.datatype) for n, t in declared.graph_inputs.items()}

    def __call__(self, texts: Sequence[str]) -> Feed:
        pieces = self._tokenizer.encode_batch(list(texts))
        columns = {
            "input_ids": [piece.ids for piece in pieces],
            "attention_mask": [piece.attention_mask for piece in pieces],
            "token_type_ids": [piece.type_ids for piece in pieces],
        }
        return {name: np.array(columns[name], dtype) for name, dtype in self._types.items()}


def _padding(tokenizer: Any) -> str:
    """As the served runtime has it."""
    names = ((tokenizer.padding or {}).get("pad_token"), "[PAD]", "<pad>")
    known = (name for name in names if name and tokenizer.token_to_id(name) is not None)
    return next(known, "[PAD]")


def random_batches(declared: Declaration, seed: int) -> Iterator[Sample]:
    """Batches at the corners of the declared ranges and at their usual sizes. The largest are
    made narrower where they would take long."""
    generator = np.random.default_rng(seed)
    batch = declared.batch or RangeDeclaration(min=1, opt=1, max=1)
    corners = [(batch.min, "min"), (batch.opt, "opt"), (batch.max, "max")]
    for (rows, row_corner), axis_corner in itertools.product(corners, ("min", "opt", "max")):
        sizes = {name: int(getattr(axis, axis_corner)) for name, axis in declared.axes.items()}
        if not sizes and axis_corner != "opt":
            continue
        rows = min(rows, _MOST_CELLS)
        sizes = {n: max(1, min(size, _MOST_CELLS // rows)) for n, size in sizes.items()}
        feed = {
            name: _random(tensor, rows, sizes, generator, declared.batch is not None)
            for name, tensor in declared.graph_inputs.items()
        }
        shown = ", ".join([f"batch {rows}", *(f"{n} {s}" for n, s in sizes.items())])
        yield Sample(f"random {shown} ({row_corner}, {axis_corner})", feed)


def _random(
    tensor: TensorDeclaration,
    rows: int,
    sizes: Mapping[str, int],
    generator: np.random.Generator,
    batched: bool,
) -> Array:
    shape = tuple(
        sizes.get(str(d), 8) if not isinstance(d, int) or d < 0 else d for d in tensor.dims
    )
    shape = (rows, *shape) if batched else shape
    return random_values(tensor.datatype, shape, tensor.between, generator)


def random_values(
    datatype: DeclaredDatatype,
    shape: tuple[int, ...],
    between: tuple[float, float] | None,
    generator: np.random.Generator,
) -> Array:
    """Within the range; by default from -1 to 1, and whole numbers 0 and 1, which are rows of any
    table. Raises WrongModel for a datatype that numpy has not."""
    dtype = numpy_dtype(datatype)
    if dtype == np.dtype(object):
        return np.full(shape, b"a", dtype)
    if np.issubdtype(dtype, np.floating):
        low, high = between or (-1.0, 1.0)
        return np.asarray(generator.uniform(low, high, shape)).astype(dtype)
    low, high = between or (0, 1)
    return np.asarray(generator.integers(int(low), int(high), shape, endpoint=True)).astype(dtype)


def canary_row(tensor: TensorDeclaration, given: CanaryTensor, batched: bool) -> Array:
    """One row of an input, as the canary says it."""
    dims = tuple(int(d) for d in (given.dims or tensor.dims))
    values = given.values if isinstance(given.values, tuple) else (given.values,)
    dtype = numpy_dtype(tensor.datatype)
    held = [v.encode() if isinstance(v, str) else v for v in values]
    flat: npt.NDArray[np.generic] = np.empty(len(held), dtype)
    flat[:] = held
    row = np.full(dims, flat[0], dtype) if len(held) == 1 else flat.reshape(dims)
    return np.ascontiguousarray(row[None] if batched else row)


def numpy_dtype(datatype: DeclaredDatatype) -> np.dtype[np.generic]:
    if datatype not in _NUMPY:
        raise WrongModel(f"{datatype} has no place in numpy; such a model cannot be checked here")
    return _NUMPY[datatype]
