"""Weights in 8 bits: dynamic (activations are scaled as they come) or static (scales from
calibration), and what that does to size, speed and accuracy. Past the gate, or slower, nothing is
kept.

Matrix products get signed weights with a scale for each column. Weights in unsigned bytes are
slower than 32 bits on processors without VNNI (0.9 of the speed for minilm, 1 thread, 2026-11),
and a single scale for a whole matrix costs minilm 0.05 of rank correlation.
"""

from __future__ import annotations

import logging
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gateway.core.ambient import monotonic_s
from gateway.models import graph, versions
from gateway.models.declaration import Declaration
from gateway.models.declaration.tensors import Precision
from gateway.models.failures import GateClosed, WrongModel, needs
from gateway.models.samples import DataSet, Sample, data_set, random_batches
from gateway.models.sessions import Array, Level, Session
from gateway.models.variants import accuracy, evidence

Method = Literal["dynamic", "static"]
Report = Callable[[str], None]
Timer = Callable[[tuple[Session, ...], Sample], Sequence[Sequence[float]]]
"""The times of each session on one sample, in milliseconds."""

THREADS = 1  # of each session while they are timed; more would race with what else runs here
ROUNDS = 21
CALIBRATION_BATCHES = 24
STATIC_OPERATORS = ("MatMul", "Gemm", "Conv", "Gather")
"""With weights. Softmax, norms and sums in 8 bits of fixed scale leave nothing of a transformer
(rank correlation 0.23 for minilm, 0.91 without them)."""


@dataclass(frozen=True, slots=True)
class Quantized:
    """What became of one model. `before` is the fp32 graph as ONNX Runtime optimises it."""

    model: str
    method: Method
    file: Path
    before_bytes: int
    after_bytes: int
    metric: str
    rows: int
    before: float
    after: float
    largest_loss: float
    timed_on: str
    before_ms: float
    after_ms: float
    speedup: float  # the median of the ratios of neighbouring runs

    @property
    def size_cut(self) -> float:
        return 1 - self.after_bytes / self.before_bytes

    @property
    def loss(self) -> float:
        return self.before - self.after

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "method": self.method,
            "file": str(self.file),
            "bytes": {"before": self.before_bytes, "after": self.after_bytes},
            "size_cut": round(self.size_cut, 4),
            "accuracy": {
                "metric": self.metric,
                "rows": self.rows,
                "before": round(self.before, 5),
                "after": round(self.after, 5),
                "largest_loss": self.largest_loss,
            },
            "latency": {
                "batch": self.timed_on,
                "threads": THREADS,
                "before_ms": round(self.before_ms, 3),
                "after_ms": round(self.after_ms, 3),
                "speedup": round(self.speedup, 3),
            },
        }


def interleaved_ms(sessions: tuple[Session, ...], sample: Sample) -> list[list[float]]:
    """The times of each, taken in turns so that what else runs here slows all alike."""
    taken: list[list[float]] = [[] for _ in sessions]
    for _ in range(ROUNDS + 1):
        for session, laps in zip(sessions, taken, strict=True):
            start = monotonic_s()
            session.run(sample.feed)
            laps.append((monotonic_s() - start) * 1e3)
    return [laps[1:] for laps in taken]  # the first one allocates


def quantize(
    directory: Path,
    declared: Declaration,
    method: Method,
    report: Report,
    timed: Timer = interleaved_ms,
) -> Quantized:
    """Raises GateClosed when accuracy falls past the gate or the speed falls at all; what is
    there stays."""
    source = _source(directory, declared)
    data = data_set(directory, declared)
    at = versions.variant(directory, declared, Precision.INT8)
    versions.swept(at.parent)
    with versions.staging(at.parent) as made:
        report("folding constants")
        whole, folded = made / "whole.onnx", made / "folded.onnx"
        whole.write_bytes(graph.weighted(source).SerializeToString())
        Session(whole, level=Level.BASIC, optimised_to=folded)
        report(f"writing 8 bits ({method})")
        written = made / at.name
        _write(folded, written, declared, data, method)
        quantized = _judged(source, written, at, declared, data, method, report, timed)
        if quantized.loss > quantized.largest_loss:  # guard: V2.int8-gate
            raise GateClosed(_summary(quantized))
        if quantized.speedup < 1:  # guard: V2.int8-speed
            raise GateClosed(_slower(quantized))
        versions.place(written, at)
    evidence.add(at.parent, {at.name: {"precision": "int8", "quantized": quantized.as_json()}})
    return quantized


def _source(directory: Path, declared: Declaration) -> Path:
    if Precision.INT8 not in declared.precisions or declared.accuracy is None:
        raise WrongModel(
            f"{directory}: model.yaml does not allow int8; add it to precisions, with an accuracy "
            "gate (accuracy: metric, data, largest_loss)"
        )
    if declared.graph is None or declared.graph.precision is not Precision.FP32:
        raise WrongModel(f"{directory}: the graph is not in fp32, so there is nothing to quantize")
    source = versions.graph_file(directory, declared)
    if differences := graph.disagreements(graph.signature(graph.read(source)), declared):
        raise WrongModel("\n".join(f"{source}: {line}" for line in differences))
    return source


def _write(
    source: Path, target: Path, declared: Declaration, data: DataSet, method: Method
) -> None:
    try:
        from onnxruntime import quantization  # imports onnx, which is an extra
    except ModuleNotFoundError:
        raise needs("onnx", "models") from None
    how = declared.quantization
    signed = quantization.QuantType.QInt8
    common = {
        "weight_type": signed,
        "per_channel": how.per_channel,
        "reduce_range": how.reduce_range,
        "nodes_to_exclude": _unquantized(source, declared),
    }
    with _quiet():
        if method == "dynamic":
            quantization.quantize_dynamic(str(source), str(target), **common)
        else:
            activations = signed if how.symmetric else quantization.QuantType.QUInt8
            quantization.quantize_static(
                str(source),
                str(target),
                _calibration(data, quantization.CalibrationDataReader),
                quant_format=quantization.QuantFormat.QDQ,
                activation_type=activations,
                op_types_to_quantize=list(STATIC_OPERATORS),
                extra_options={"ActivationSymmetric": how.symmetric, "WeightSymmetric": True},
                **common,
            )


def _calibration(data: DataSet, reader: type[Any]) -> Any:
    """The first batches of the data set, as the quantizer asks for them."""

    class Batches(reader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left = iter(data.batches[:CALIBRATION_BATCHES])

        def get_next(self) -> dict[str, Array] | None:
            sample = next(self._left, None)
            return None if sample is None else dict(sample.feed)

    return Batches()


def _unquantized(source: Path, declared: Declaration) -> list[str]:
    """The nodes that use the weights which are to stay. Raises WrongModel for unknown ones."""
    wanted = set(declared.quantization.keep)
    model = graph.read(source)
    if unknown := wanted - {initializer.name for initializer in model.graph.initializer}:
        raise WrongModel(
            f"quantization.keep: the graph has no weights {', '.join(sorted(unknown))}"
        )
    return [node.name for node in model.graph.node if wanted & set(node.input)]


def _judged(
    source: Path,
    written: Path,
    at: Path,
    declared: Declaration,
    data: DataSet,
    method: Method,
    report: Report,
    timed: Timer,
) -> Quantized:
    assert declared.accuracy is not None
    report("measuring accuracy")
    before, after = Session(source, threads=THREADS), Session(written, threads=THREADS)
    reference = accuracy.run_outputs(before, data, declared)
    outputs = accuracy.run_outputs(after, data, declared)
    metric = declared.accuracy.metric
    report("measuring speed")
    sample = usual_sample(declared)
    laps = timed((before, after), sample)
    before_ms, after_ms = map(statistics.median, laps)
    return Quantized(
        model=declared.name,
        method=method,
        file=at,
        before_bytes=source.stat().st_size,
        after_bytes=written.stat().st_size,
        metric=metric.value,
        rows=data.rows,
        before=accuracy.measured(metric, reference, reference, data.labels),
        after=accuracy.measured(metric, outputs, reference, data.labels),
        largest_loss=declared.accuracy.largest_loss,
        timed_on=sample.name,
        before_ms=before_ms,
        after_ms=after_ms,
        speedup=statistics.median(one / other for one, other in zip(*laps, strict=True)),
    )


def usual_sample(declared: Declaration) -> Sample:
    """A batch of the usual size in every direction."""
    batches = random_batches(declared, declared.verify.seed)
    return next(sample for sample in batches if sample.name.endswith("(opt, opt)"))


def _summary(quantized: Quantized) -> str:
    return (
        f"{quantized.model}: int8 ({quantized.method}) loses {quantized.loss:.4f} "
        f"of {quantized.metric} ({quantized.before:.4f} to {quantized.after:.4f} "
        f"on {quantized.rows} rows), more than the {quantized.largest_loss} "
        "that model.yaml allows; nothing was kept. Name weights that are to stay in fp32 in "
        "quantization.keep (the first and last layers are the most sensitive), or try the other "
        "method"
    )


def _slower(quantized: Quantized) -> str:
    return (
        f"{quantized.model}: int8 ({quantized.method}) takes {1 / quantized.speedup:.2f} times as "
        f"long as fp32 ({quantized.before_ms:.2f} to {quantized.after_ms:.2f} ms, "
        f"{quantized.timed_on}); nothing was kept. Try the other method, or a processor with VNNI"
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """The quantizer advises on the root logger what was done already."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
