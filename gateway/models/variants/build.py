"""From the ONNX file to what serves: checked, optimised, in 16 bits, compiled.

Everything is made in a staging directory beside its place and moved there when all of it is whole,
so that a file that is no model, a compiler that fails or a full disk changes nothing that serves.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gateway.endpoints.batch_rows.rows import INDEPENDENT, Rows
from gateway.models import batching, graph, versions
from gateway.models.declaration import Declaration
from gateway.models.declaration.tensors import Precision, RangeDeclaration, TensorDeclaration
from gateway.models.failures import GateClosed, ModelCommandFailed, WrongModel
from gateway.models.samples import data_set, random_batches
from gateway.models.sessions import Level, Outputs, Session
from gateway.models.variants import accuracy, evidence, precision, verify
from gateway.models.variants.engines import EngineBuilder, Shape, ShapeProfile

Report = Callable[[str], None]
_SIXTEEN = (Precision.FP16, Precision.BF16)


@dataclass(frozen=True, slots=True)
class BuiltVariant:
    """One file that serves, and what is known of it."""

    file: str
    precision: Precision
    size_bytes: int
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BuildResult:
    """`left_out`: why not, by the names of precisions and builders."""

    files: Sequence[BuiltVariant] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


def build(
    directory: Path,
    declared: Declaration,
    builders: Sequence[EngineBuilder],
    report: Report,
    optional: Collection[str] = (),
) -> BuildResult:
    """Every variant that the declaration allows, in the version that is served. `optional`: names
    of precisions and builders whose variants are left out where they cannot be made. Raises
    ModelFailed for any other; nothing has changed then."""
    source = versions.graph_file(directory, declared)
    check(source, declared, report)
    report("trying rows together and alone")
    batching.check(directory, declared)
    versions.swept(source.parent)  # guard: V1.stale-staging
    # guard: V1.build-aside versions.staging(source.parent) ->
    #   __import__("contextlib").nullcontext(source.parent)
    with versions.staging(source.parent) as staged:
        reference = verify.Reference(directory, declared, {b.suffix: b.load for b in builders})
        variants = _Variants(declared, reference, staged, optional)
        own = source_precision(declared)
        if not graph.external_files(graph.read(source)):  # which an optimised one would share
            name = versions.optimised(directory, declared).name
            variants.add(own.value, partial(_optimised, source, name, staged, declared))
            report("optimised by ONNX Runtime")
        graphs = {own: source}
        for wanted in (p for p in declared.precisions if p in _SIXTEEN and p is not own):
            report(f"writing {wanted.value}")
            at = staged / versions.variant(directory, declared, wanted).name
            if variants.add(
                wanted.value, partial(_sixteen, source, at, wanted, directory, declared)
            ):
                graphs[wanted] = at
        graphs |= _quantized(directory, declared)
        for builder, (wanted, at) in itertools.product(builders, graphs.items()):
            report(f"compiling {wanted.value} with {builder.name}")
            engine = staged / versions.engine(directory, declared, wanted, builder.suffix).name
            variants.add(builder.name, partial(_engine, builder, wanted, at, engine, declared))
        made = variants.made
        for one in made:
            versions.place(staged / one.file, source.parent / one.file)
    evidence.add(source.parent, {m.file: {"precision": m.precision.value, **m.facts} for m in made})
    return BuildResult(made, variants.left_out)


class _Variants:
    """Those that are made, each compared with the reference."""

    def __init__(
        self,
        declared: Declaration,
        reference: verify.Reference,
        staged: Path,
        optional: Collection[str],
    ) -> None:
        self.made: list[BuiltVariant] = []
        self.left_out: dict[str, str] = {}
        self._declared, self._reference = declared, reference
        self._staged, self._optional = staged, optional

    def add(self, name: str, make: Callable[[], BuiltVariant]) -> bool:
        """Whether it was made. Raises ModelCommandFailed for one that is not optional."""
        try:
            one = _compared(make(), self._staged, self._reference, self._declared)
        except ModelCommandFailed as exc:
            if name not in self._optional:
                raise
            self.left_out[name] = str(exc).replace(f"{self._staged}/", "")
            return False
        self.made.append(one)
        return True


def check(source: Path, declared: Declaration, report: Report) -> None:
    """Raises WrongModel unless the file is a whole graph, has the declared tensors, and answers
    at the smallest and the largest declared sizes with outputs of the declared sizes."""
    report("checking the graph")
    signature = graph.signature(graph.read(source))
    if differences := graph.disagreements(signature, declared):  # guard: V1.declared-tensors
        raise WrongModel("\n".join(f"{source}: {line}" for line in differences))
    session = Session(source)
    for number, sample in enumerate(random_batches(declared, declared.verify.seed)):
        answered = session.run(sample.feed)
        if number == 0:
            _check_repeated(source, answered, session.run(sample.feed))
        rows = len(next(iter(sample.feed.values())))
        for name in declared.graph_outputs:
            if declared.batch is not None and len(answered[name]) != rows:  # guard: V1.output-rows
                raise WrongModel(
                    f"{source}: output {name} has {len(answered[name])} rows for {sample.name}; "
                    "its first axis must be the batch"
                )


def _check_repeated(source: Path, first: Outputs, second: Outputs) -> None:
    for name, values in first.items():
        same = np.array_equal(values, second[name], equal_nan=values.dtype.kind == "f")
        if not same:  # guard: V1.repeated-answer
            raise WrongModel(
                f"{source}: output {name} has two answers to the same input; export it without "
                "random operators (in PyTorch after `model.eval()`)"
            )


def source_precision(declared: Declaration) -> Precision:
    assert declared.graph is not None
    return declared.graph.precision


def _optimised(source: Path, name: str, staged: Path, declared: Declaration) -> BuiltVariant:
    """What any processor gains; layouts for this one are made when it is loaded."""
    Session(source, level=Level.EXTENDED, optimised_to=staged / name)
    return _made(staged / name, source_precision(declared), {})


def _engine(
    builder: EngineBuilder, wanted: Precision, source: Path, at: Path, declared: Declaration
) -> BuiltVariant:
    built = builder.build(source, profiles(declared), at)
    return _made(at, wanted, {"engine": built.as_json()})


def _sixteen(
    source: Path, at: Path, wanted: Precision, directory: Path, declared: Declaration
) -> BuiltVariant:
    precision.written(source, at, wanted)
    if declared.accuracy is None or wanted is Precision.BF16:  # which ONNX Runtime's CPU has not
        return _made(at, wanted, {})
    data = data_set(directory, declared)
    metric = declared.accuracy.metric
    reference = accuracy.run_outputs(Session(source), data, declared)
    outputs = accuracy.run_outputs(Session(at), data, declared)
    before = accuracy.measured(metric, reference, reference, data.labels)
    after = accuracy.measured(metric, outputs, reference, data.labels)
    if before - after > declared.accuracy.largest_loss:  # guard: V2.accuracy-gate
        raise GateClosed(
            f"{declared.name}: {wanted.value} loses {before - after:.4f} of {metric.value}, more "
            f"than the {declared.accuracy.largest_loss} that model.yaml allows; take it out of "
            "precisions"
        )
    return _made(at, wanted, {"accuracy": {"metric": metric.value, "after": round(after, 5)}})


def _compared(
    one: BuiltVariant, staged: Path, reference: verify.Reference, declared: Declaration
) -> BuiltVariant:
    check = reference.check(one.file, staged / one.file, one.precision)
    if not check.ok:  # guard: V2.reference-error
        raise GateClosed(
            f"{declared.name}: {one.file} is off by {check.off}, and verify.tolerance allows "
            f"{check.tolerance:g}; take {one.precision.value} out of precisions, or allow more"
        )
    if check.skipped is not None:
        return one
    rows = check.rows or INDEPENDENT
    if rows.rows is Rows.COUPLED and batching.is_requested(declared):  # guard: E4.variant-rows
        raise GateClosed(f"{declared.name}: {one.file}: {batching.refusal(declared, rows)}")
    facts = {"verified": True, "distance": float(f"{check.off.distance:.3g}")}
    return replace(one, facts={**one.facts, **facts})


def _made(at: Path, wanted: Precision, facts: Mapping[str, Any]) -> BuiltVariant:
    return BuiltVariant(at.name, wanted, at.stat().st_size, facts)


def _quantized(directory: Path, declared: Declaration) -> dict[Precision, Path]:
    """The int8 graph, where it is there and of the kind that an engine takes."""
    how = declared.quantization
    at = versions.variant(directory, declared, Precision.INT8)
    static = how.method == "static" and how.symmetric
    return {Precision.INT8: at} if static and at.exists() else {}


def profiles(declared: Declaration) -> dict[str, ShapeProfile]:
    """The shapes of each input of the graph, from the declared ranges."""
    batch = declared.batch
    return {
        name: ShapeProfile(
            _shape(tensor, declared, batch, "min"),
            _shape(tensor, declared, batch, "opt"),
            _shape(tensor, declared, batch, "max"),
        )
        for name, tensor in declared.graph_inputs.items()
    }


def _shape(
    tensor: TensorDeclaration, declared: Declaration, batch: RangeDeclaration | None, corner: str
) -> Shape:
    sizes = [] if batch is None else [int(getattr(batch, corner))]
    for dim in tensor.dims:
        if isinstance(dim, str):
            sizes.append(int(getattr(declared.axes[dim], corner)))
        elif dim < 0:
            raise WrongModel("an engine needs a range for every free size; name it and add to axes")
        else:
            sizes.append(dim)
    return tuple(sizes)
