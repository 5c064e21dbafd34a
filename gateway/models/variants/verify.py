"""Whether every variant of a model says what its reference says.

The reference is the graph as it was written, with ONNX Runtime's rewriting off. Each variant runs
on random batches at the corners of the declared ranges and on rows of the data set; how far off it
is, is the largest difference in an output, relative to the largest value of the reference there.
A golden file holds what the reference itself said when the model was checked in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gateway.endpoints.batch_rows.rows import RowVerdict
from gateway.models import batching, graph, versions
from gateway.models.declaration import Declaration
from gateway.models.declaration.tensors import Precision
from gateway.models.failures import WrongModel
from gateway.models.samples import Cutter, Sample, canary_row, data_set, random_batches
from gateway.models.sessions import Array, Feed, Level, Outputs, Session
from gateway.models.variants import evidence
from gateway.models.variants.engines import ENGINE_SUFFIXES, Loaded
from gateway.models.variants.engines.kinds import load_runner

Report = Callable[[str], None]

REAL_BATCHES = 6
GOLDEN_VALUES = 16
GOLDEN_TOLERANCE = 1e-3  # between processors; a change of weights is far above it
_TINY = 1e-9
_CANARY = "canary"


@dataclass(frozen=True, slots=True)
class Deviation:
    """Where a variant is furthest from the reference."""

    distance: float = 0.0
    output: str = ""
    sample: str = ""
    row: int = 0

    def __str__(self) -> str:
        where = f" (output {self.output}, {self.sample}, row {self.row})" if self.output else ""
        return f"{self.distance:.2e}{where}"


@dataclass(frozen=True, slots=True)
class VariantCheck:
    """One variant. `skipped` says why it was not run."""

    variant: str
    file: Path | None
    tolerance: float | None = None
    off: Deviation = Deviation()
    skipped: str | None = None
    rows: RowVerdict | None = None  # of one batch; None: it takes no batches, or was not run

    @property
    def ok(self) -> bool:
        return self.tolerance is None or self.off.distance <= self.tolerance


@dataclass(frozen=True, slots=True)
class VariantVerification:
    model: str
    variants: Sequence[VariantCheck] = ()
    wrong: Sequence[str] = ()  # what is not as declared, or not as the golden file has it
    skipped: str | None = None

    @property
    def ok(self) -> bool:
        return not self.wrong and all(variant.ok for variant in self.variants)

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "ok": self.ok,
            "skipped": self.skipped,
            "wrong": list(self.wrong),
            "variants": [
                {
                    "variant": v.variant,
                    "file": v.file and v.file.name,
                    "ok": v.ok,
                    "tolerance": v.tolerance,
                    "distance": v.off.distance,
                    "output": v.off.output,
                    "sample": v.off.sample,
                    "row": v.off.row,
                    "skipped": v.skipped,
                    "rows": v.rows and v.rows.rows.value,
                    "rows_why": v.rows and v.rows.why,
                }
                for v in self.variants
            ],
        }


def verify(
    directory: Path, declared: Declaration, report: Report, update: bool = False
) -> VariantVerification:
    """Raises WrongModel for a graph that is no graph."""
    if declared.graph is None:
        return VariantVerification(declared.name, skipped="it has no graph")
    at = versions.graph_file(directory, declared)
    differences = graph.disagreements(graph.signature(graph.read(at)), declared)
    if differences:
        return VariantVerification(declared.name, wrong=differences)
    report(f"{declared.name}: the reference")
    reference = Reference(directory, declared)
    if update:
        _write_golden(directory, declared, reference.session)
    wrong = _against_golden(directory, declared, reference.session)
    wrong += _against_canary(directory, declared, reference.session)
    checked = []
    served = dict(batching.served(directory, declared))
    for name, file, precision in _variants(directory, declared):
        report(f"{declared.name}: {name}")
        check = reference.check(name, file, precision)
        checked.append(check)
        if check.rows is not None and file in served:
            refusal = batching.refusal(declared, check.rows)
            wrong += [] if refusal is None else [f"{name}: {refusal}"]
    verified = VariantVerification(declared.name, checked, wrong)
    _remember(at.parent, verified)
    return verified


def _samples(directory: Path, declared: Declaration) -> Iterator[Sample]:
    yield from random_batches(declared, declared.verify.seed)
    if declared.accuracy is not None:
        yield from data_set(directory, declared).batches[:REAL_BATCHES]


def _variants(directory: Path, declared: Declaration) -> Iterator[tuple[str, Path, Precision]]:
    """Every file that is there, and the graph itself as ONNX Runtime optimises it."""
    assert declared.graph is not None
    own = declared.graph.precision
    at = versions.graph_file(directory, declared)
    yield f"{own.value}, as ONNX Runtime optimises it", at, own
    others = [(f"{own.value}, written optimised", versions.optimised(directory, declared), own)]
    for precision in declared.precisions:
        if precision is not own:
            others.append(
                (precision.value, versions.variant(directory, declared, precision), precision)
            )
        for suffix in ENGINE_SUFFIXES:
            engine = versions.engine(directory, declared, precision, suffix)
            others.append((f"{precision.value} engine ({suffix[1:]})", engine, precision))
    yield from (variant for variant in others if variant[1].exists())


class Reference:
    """The graph as it was written, and what it says of every sample."""

    def __init__(
        self,
        directory: Path,
        declared: Declaration,
        loads: Mapping[str, Callable[[Path], Loaded]] | None = None,
    ) -> None:
        """`loads`: what opens engines, by their suffix; by default whoever is installed."""
        self._directory = directory
        self._declared = declared
        self._loads = loads or {}
        self.session = Session(versions.graph_file(directory, declared), level=Level.NONE)
        self._samples = list(_samples(directory, declared))
        self._expected = [self.session.run(sample.feed) for sample in self._samples]

    def check(self, name: str, file: Path, precision: Precision) -> VariantCheck:
        tolerance = self._declared.verify.tolerance.get(precision)
        if tolerance is None:
            raise WrongModel(
                f"{self._declared.name}: verify.tolerance has no {precision.value}; say how far "
                "it may be off"
            )
        loaded = self._loads.get(file.suffix, partial(_loaded, precision=precision))(file)
        if loaded.run is None:
            return VariantCheck(name, file, skipped=loaded.why_not)
        worst = Deviation()
        for sample, wanted in zip(self._samples, self._expected, strict=True):
            off = _furthest(loaded.run(sample.feed), wanted, self._declared, sample)
            worst = max(worst, off, key=_distance)
        return VariantCheck(name, file, tolerance, worst, rows=self._rows(loaded.run, precision))

    def _rows(self, run: Callable[[Feed], Outputs], precision: Precision) -> RowVerdict | None:
        if self._declared.max_batch < 2:
            return None
        return batching.tried(self._declared, run, precision, self._directory)


def _loaded(file: Path, precision: Precision) -> Loaded:
    if file.suffix in ENGINE_SUFFIXES:
        return load_runner(file)
    try:
        return Loaded(Session(file).run)
    except WrongModel:
        if precision is not Precision.BF16:
            raise
        return Loaded(why_not="ONNX Runtime has no bf16 on the processor")


def _distance(off: Deviation) -> float:
    return off.distance


def _furthest(
    outputs: Outputs, wanted: Outputs, declared: Declaration, sample: Sample
) -> Deviation:
    worst = Deviation()
    for name in declared.graph_outputs:
        one, other = (np.asarray(side[name]) for side in (outputs, wanted))
        if one.shape != other.shape:
            return Deviation(float("inf"), name, sample.name)  # guard: V2.output-shape -> continue
        if not other.size:
            continue
        distances = apart(one, other).reshape(len(other) if other.ndim else 1, -1).max(axis=1)
        row = int(distances.argmax())
        worst = max(worst, Deviation(float(distances[row]), name, sample.name, row), key=_distance)
    return worst


def apart(one: Array, other: Array) -> npt.NDArray[np.float64]:
    """Of each value, relative to the largest finite one; strings, and values that are no numbers,
    are alike or as far apart as can be."""
    if other.dtype == np.dtype(object):
        return np.where(one == other, 0.0, np.inf)
    left, right = one.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(left) & np.isfinite(right)
    scale = max(float(np.abs(right[finite]).max(initial=0.0)), _TINY)
    distances = np.where((left == right) | (np.isnan(left) & np.isnan(right)), 0.0, np.inf)
    distances[finite] = np.abs(left[finite] - right[finite]) / scale
    return distances


# --- the golden file ---


def _golden_samples(directory: Path, declared: Declaration) -> Iterator[Sample]:
    """Small: the canary where there is one, and one random batch."""
    batched = declared.batch is not None
    if declared.canary is not None:
        rows = {
            name: canary_row(declared.inputs[name], given, batched)
            for name, given in declared.canary.inputs.items()
        }
        text = declared.graph.text if declared.graph else None
        if text is not None:
            lines = [value.decode() for value in rows[text.input].ravel()]
            yield Sample(_CANARY, Cutter(directory, declared)(lines))
        elif declared.graph_inputs is declared.inputs:
            yield Sample(_CANARY, rows)
    yield next(random_batches(declared, declared.verify.seed))


def _output_facts(outputs: Outputs, declared: Declaration) -> dict[str, Any]:
    facts = {}
    for name in declared.graph_outputs:
        facts[name] = _tensor_facts(np.asarray(outputs[name]))
    return facts


def _tensor_facts(values: Array) -> dict[str, Any]:
    first = values.ravel()[:GOLDEN_VALUES]
    if values.dtype == np.dtype(object):
        return {"shape": list(values.shape), "first": [str(value) for value in first]}
    numbers = values.astype(np.float64)
    largest = np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0)
    return {
        "shape": list(values.shape),
        "first": [float(f"{v:.6g}") for v in first.astype(np.float64)],
        "largest": float(f"{largest:.6g}"),
    }


def _write_golden(directory: Path, declared: Declaration, reference: Session) -> None:
    held = {
        "samples": {
            sample.name: _output_facts(reference.run(sample.feed), declared)
            for sample in _golden_samples(directory, declared)
        }
    }
    with versions.staging(directory) as made:
        (made / "golden").write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
        golden = versions.sample_file(directory, declared.verify.golden)
        golden.parent.mkdir(parents=True, exist_ok=True)
        versions.place(made / "golden", golden)


def _against_golden(directory: Path, declared: Declaration, reference: Session) -> list[str]:
    path = versions.sample_file(directory, declared.verify.golden)
    try:
        samples = json.loads(path.read_text(encoding="utf-8"))["samples"]
        held = {name: dict(sample) for name, sample in samples.items()}
    except FileNotFoundError:
        return [f"{path}: is not there; look at the outputs, then write it with --update"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return [f"{path}: is no golden file; write it anew with --update"]
    wrong = []
    for sample in _golden_samples(directory, declared):
        now = _output_facts(reference.run(sample.feed), declared)
        for name, fresh in now.items():
            if not _alike(held.get(sample.name, {}).get(name), fresh):  # guard: V2.changed-weights
                wrong.append(
                    f"{path}: output {name} of {sample.name} is not what it was when the golden "
                    "file was written; if the weights were meant to change, use --update"
                )
    return wrong


def _against_canary(directory: Path, declared: Declaration, reference: Session) -> list[str]:
    """The answer that model.yaml says its canary has."""
    answered = canary_answer(directory, declared, reference)
    if declared.canary is None or answered is None:
        return []
    wrong = []
    for name, wanted in declared.canary.outputs.items():
        first = np.asarray(answered[name], np.float64).ravel()[: len(wanted.first)]
        if len(first) != len(wanted.first) or not np.allclose(
            first, wanted.first, rtol=0, atol=wanted.tolerance
        ):
            shown = ", ".join(f"{value:.6g}" for value in first)
            wrong.append(
                f"{versions.declaration_file(directory)}: canary: output {name} begins with "
                f"{shown}; if these weights are right, write that into canary.outputs"
            )
    return wrong


def canary_answer(directory: Path, declared: Declaration, reference: Session) -> Outputs | None:
    """None where there is no canary, or none that the graph alone can be run on."""
    first = next(_golden_samples(directory, declared))
    return reference.run(first.feed) if first.name == _CANARY else None


def _alike(before: Any, now: Mapping[str, Any]) -> bool:
    if not isinstance(before, dict) or before.get("shape") != now["shape"]:
        return False
    if "largest" not in now or "largest" not in before:  # of strings
        return before == now
    atol = GOLDEN_TOLERANCE * max(float(before["largest"]), _TINY)
    same = np.allclose(before["first"], now["first"], rtol=0, atol=atol, equal_nan=True)
    return bool(same and np.isclose(before["largest"], now["largest"], rtol=0, atol=atol))


def _remember(version: Path, verification: VariantVerification) -> None:
    """For `spillway models ls`; one that cannot be written is nobody's failure."""
    measured: dict[str, dict[str, Any]] = {}
    for checked in verification.variants:
        if checked.file is not None and checked.skipped is None:
            before = measured.get(checked.file.name, {"verified": True})["verified"]
            measured[checked.file.name] = {
                "verified": bool(before and checked.ok and not verification.wrong),
                "distance": float(f"{checked.off.distance:.3g}"),
            }
            if checked.rows is not None:
                measured[checked.file.name]["rows"] = checked.rows.rows.value
    evidence.add(version, measured)
