"""How many rows a graph takes, and which sizes of its free axes: tried, with hints from the file.

A file names its free axes and says nothing of their extent. All of them are given one size after
another; the longest run of sizes that the graph answers becomes the range. Where it answers none of
the usual ones, the sizes of its constants are tried, and those of pictures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gateway.core.ambient import monotonic_s
from gateway.models.failures import WrongModel
from gateway.models.graph import GraphTensor, Signature
from gateway.models.samples import random_values
from gateway.models.sessions import Feed, Outputs

USUAL = (1, 2, 3, 4, 5, 7, 8, 16, 32, 64, 128, 224, 256)
_PICTURES = (28, 96, 112, 160, 192, 240, 299, 320, 384, 416, 448, 512, 640)
_PREFERRED = 32  # of the sizes that it takes, as the usual one
_MANY_ROWS = (8, 32)
_MOST_HINTS = 64
_MOST_VALUES = 1 << 24  # of an input
_LONGEST_S = 5.0  # no larger size follows a run that takes longer

Run = Callable[[Feed], Outputs]
"""Raises WrongModel."""


class UnknownExtents(WrongModel):
    """No size that was tried fits the graph; its owner knows them."""


@dataclass(frozen=True, slots=True)
class Range:
    smallest: int
    usual: int
    largest: int


_ONE = Range(1, 1, 1)  # says nothing of free axes: tensors of size 1 are broadcast


@dataclass(frozen=True, slots=True)
class Extents:
    """`rows`: of a batch; None where the first axes do not count rows. `axes`: by name."""

    rows: Range | None
    axes: Mapping[str, Range]


def axis_name(tensor: str, at: int, dim: str) -> str:
    """Of a free axis, as model.yaml has it: its own, or one made of the tensor's."""
    return re.sub(r"\W", "_", dim or f"{tensor}_{at}")[:48].lstrip("0123456789") or "size"


def may_batch(signature: Signature) -> bool:
    """Whether the first axis of every tensor is free."""
    tensors = [*signature.inputs.values(), *signature.outputs.values()]
    return all(t.dims and not isinstance(t.dims[0], int) for t in tensors)


def free_axes(signature: Signature, batched: bool) -> list[str]:
    """Of the inputs, but for the batch's."""
    names = (
        axis_name(name, at, dim)
        for name, tensor in signature.inputs.items()
        for at, dim in enumerate(tensor.dims)
        if not isinstance(dim, int) and not (batched and at == 0)
    )
    return list(dict.fromkeys(names))


def tried(signature: Signature, run: Run, hints: Iterable[int] = ()) -> Extents:
    """`hints`: sizes that the file mentions. Raises WrongModel for a graph that does not run, and
    UnknownExtents."""
    graph = _Trial(signature, run)
    rare = sorted({*_PICTURES, *sorted({h for h in hints if 1 < h <= 4096})[:_MOST_HINTS]})
    for sizes in (USUAL, rare):
        if may_batch(signature) and (extents := _batched(graph, sizes)) is not None:
            return extents
        if (extents := _unbatched(graph, sizes)) is not None:
            return extents
    free = free_axes(signature, may_batch(signature))
    if not free:
        raise WrongModel(graph.refusal)
    raise UnknownExtents(f"no size tried fits its axes {', '.join(free)}: {graph.refusal}")


def unknown(signature: Signature) -> Extents:
    """For a draft that its owner completes."""
    batched = may_batch(signature)
    axes = dict.fromkeys(free_axes(signature, batched), Range(1, _PREFERRED, max(USUAL)))
    return Extents(Range(1, _MANY_ROWS[0], _MANY_ROWS[-1]) if batched else None, axes)


class _Trial:
    def __init__(self, signature: Signature, run: Run) -> None:
        self.signature = signature
        self._run = run
        self.refusal = "it was not run"

    def outputs(self, sizes: Mapping[str, int], rows: int | None) -> Outputs | None:
        """`rows`: of a batch; None: the first axes are among the sizes. None where it refuses."""
        generator = np.random.default_rng(1)
        feed = {}
        for name, tensor in self.signature.inputs.items():
            shape = _shape(name, tensor, sizes, rows)
            if np.prod(shape) > _MOST_VALUES:
                return None
            feed[name] = random_values(tensor.datatype, shape, None, generator)
        try:
            return self._run(feed)
        except WrongModel as exc:
            self.refusal = str(exc)
            return None

    def axis_range(
        self, names: Sequence[str], rows: int | None, sizes: Sequence[int], ones: Sequence[str] = ()
    ) -> Range | None:
        """Of axes that all have the same size, while others have size 1."""
        longest: list[int] = []
        current: list[int] = []
        for size in sizes if names else (1,):
            start_s = monotonic_s()
            given = {**dict.fromkeys(ones, 1), **dict.fromkeys(names, size)}
            answered = self.outputs(given, rows) is not None
            current = [*current, size] if answered else []
            longest = max(longest, current, key=len)
            if answered and monotonic_s() - start_s > _LONGEST_S:
                break
        if not longest:
            return None
        usual = _PREFERRED if _PREFERRED in longest else longest[len(longest) // 2]
        return Range(longest[0], usual, longest[-1])


def _shape(
    name: str, tensor: GraphTensor, sizes: Mapping[str, int], rows: int | None
) -> tuple[int, ...]:
    shape = [
        dim if isinstance(dim, int) else sizes.get(axis_name(name, at, dim), 1)
        for at, dim in enumerate(tensor.dims)
    ]
    return tuple(shape) if rows is None else (rows, *shape[1:])


def _batched(graph: _Trial, sizes: Sequence[int]) -> Extents | None:
    names = free_axes(graph.signature, True)
    taken = graph.axis_range(names, 2, sizes)
    if taken is None or (names and taken == _ONE):
        return None
    usual = dict.fromkeys(names, taken.usual)
    if not all(_follows(graph.outputs(usual, rows), rows) for rows in (1, 2, 3)):
        return None
    largest = 3
    for rows in _MANY_ROWS:
        if not _follows(graph.outputs(usual, rows), rows):
            break
        largest = rows
    return Extents(Range(1, min(8, largest), largest), dict.fromkeys(names, taken))


def _follows(outputs: Outputs | None, rows: int) -> bool:
    """Whether each output has a row for one of the inputs'."""
    return outputs is not None and all(v.ndim and len(v) == rows for v in outputs.values())


def _unbatched(graph: _Trial, sizes: Sequence[int]) -> Extents | None:
    """The first axes are axes like others; or of size 1, where the graph was made for one row."""
    names = free_axes(graph.signature, False)
    together = graph.axis_range(names, None, sizes)
    if together is not None and (not names or together.smallest < together.largest):
        return Extents(None, dict.fromkeys(names, together))
    first = {
        axis_name(name, 0, tensor.dims[0])
        for name, tensor in graph.signature.inputs.items()
        if tensor.dims and not isinstance(tensor.dims[0], int)
    }
    others = [name for name in names if name not in first]
    apart = graph.axis_range(others, None, sizes, sorted(first)) if others else None
    if apart is not None and apart != _ONE:
        return Extents(None, {name: _ONE if name in first else apart for name in names})
    if together is None or (others and together == _ONE):
        return None
    return Extents(None, dict.fromkeys(names, together))
