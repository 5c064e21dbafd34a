"""Whether callers' rows may share a batch of a model: its graph is tried (`row_trial`) first.

`batching.dynamic` of model.yaml becomes `dynamic_batching` in the pbtxt only where every graph that
is served gives a row the answer that it gives it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from gateway.endpoints.batch_rows import row_trial
from gateway.endpoints.batch_rows.row_trial import Batch
from gateway.endpoints.batch_rows.rows import Rows, RowVerdict
from gateway.models import configs, versions
from gateway.models.declaration import Declaration
from gateway.models.declaration.serving import Backend
from gateway.models.declaration.tensors import Precision
from gateway.models.failures import WrongModel
from gateway.models.samples import Cutter, canary_row, numpy_dtype
from gateway.models.sessions import Session

WIDEST = 64  # of a named axis in a trial
_FREE = 8  # of an axis that nothing bounds
_TEXTS = (
    "7",
    "two red ropes",
    "a boat on the water, far from home",
    "12",
    "the house",
    "one after the other they went over the bridge and down to the river",
    "no",
    "a cloud",
)
_TOLERANCES = {
    Precision.FP16: row_trial.HALF_PRECISION_TOLERANCE["FP16"],
    Precision.BF16: row_trial.HALF_PRECISION_TOLERANCE["BF16"],
}


def is_requested(declared: Declaration) -> bool:
    """Whether callers' rows would share a batch, and nobody has said that they may."""
    batching = declared.batching
    return declared.max_batch > 1 and batching.dynamic and not batching.rows_independent


def tried(
    declared: Declaration,
    run: Callable[[Batch], Batch | None],
    precision: Precision,
    directory: Path | None = None,
) -> RowVerdict:
    """Of one graph of the model, which `run` runs; with its `directory` texts are tried, too. Text
    of unequal length is padded in a batch, which random pieces of one length do not show."""
    verdict = row_trial.run(_numeric_trial(declared, precision), _answering(run))
    if verdict.rows is Rows.COUPLED or directory is None:
        return verdict
    if declared.graph is None or declared.graph.text is None:
        return verdict
    cut = Cutter(directory, declared)
    allowed = _allowed(declared, precision)
    texts = row_trial.trial(_TEXTS, cut, declared.max_batch, allowed)
    text_verdict = row_trial.run(texts, _answering(run))
    # guard: E4.padded-texts -> return verdict
    return verdict if text_verdict.rows is Rows.UNTRIED else text_verdict


def refusal(declared: Declaration, verdict: RowVerdict) -> str | None:
    """What keeps a model that declares dynamic batching from it, and what to do; None: nothing."""
    if verdict.rows is Rows.INDEPENDENT or not is_requested(declared):
        return None
    reasons = {
        Rows.COUPLED: f"rows of one batch influence each other ({verdict.why})",
        Rows.UNTRIED: f"whether rows influence each other cannot be tried ({verdict.why})",
    }[verdict.rows]
    return (
        f"{reasons}: it must not batch callers' rows. Say `batching: {{dynamic: false}}` in "
        "model.yaml; or `batching: {rows_independent: true}` where you know better"
    )


def served(directory: Path, declared: Declaration) -> Iterator[tuple[Path, Precision]]:
    """The ONNX graphs that targets serve and that are there."""
    if declared.graph is None:
        return
    at = versions.graph_file(directory, declared)
    files = {at: declared.graph.precision}
    for target in declared.targets.values():
        if target.backend is not Backend.TENSORRT_PLAN:
            name = configs.variant_file(declared, target)
            assert name is not None
            files[at.with_name(name)] = target.precision or declared.graph.precision
    yield from ((path, precision) for path, precision in files.items() if path.exists())


def failed(directory: Path, declared: Declaration) -> tuple[Path, RowVerdict] | None:
    """A served graph that is here and must not batch callers' rows though the model declares that
    it does, and what came of its trial; None: there is none."""
    if not is_requested(declared):
        return None
    for path, precision in served(directory, declared):
        try:
            session = Session(path)
        except WrongModel:
            if precision is not Precision.BF16:  # of which ONNX Runtime's CPU has little
                raise
            continue
        verdict = tried(declared, session.run, precision, directory)
        if verdict.rows is not Rows.INDEPENDENT:
            return path, verdict
    return None


def check(directory: Path, declared: Declaration) -> None:
    """Raises WrongModel where a graph `failed`."""
    if (failure := failed(directory, declared)) is not None:
        path, verdict = failure
        raise WrongModel(f"{path}: {refusal(declared, verdict)}")


def _answering(run: Callable[[Batch], Batch | None]) -> Callable[[Batch], Batch | None]:
    def answer(batch: Batch) -> Batch | None:
        try:
            return run(batch)
        except WrongModel:
            return None

    return answer


def _allowed(declared: Declaration, precision: Precision) -> dict[str, float]:
    tolerance = _TOLERANCES.get(precision)
    return {} if tolerance is None else dict.fromkeys(declared.graph_outputs, tolerance)


def _numeric_trial(declared: Declaration, precision: Precision) -> row_trial.Trial:
    rows = _rows(declared)
    allowed = _allowed(declared, precision)
    return row_trial.trial(rows, row_trial.concatenated, declared.max_batch, allowed)


def _rows(declared: Declaration) -> list[Batch]:
    """The canary first, where there is one of this shape."""
    generator = np.random.default_rng(declared.verify.seed)
    sizes = {name: min(axis.opt, WIDEST) for name, axis in declared.axes.items()}
    sizes = {name: max(size, declared.axes[name].min) for name, size in sizes.items()}
    rows: list[Batch] = []
    for number in range(row_trial.ROWS):
        row = {}
        for name, tensor in declared.graph_inputs.items():
            dims = [sizes[d] if isinstance(d, str) else d if d > 0 else _FREE for d in tensor.dims]
            dtype = numpy_dtype(tensor.datatype)
            values = row_trial.values(number, (1, *dims), dtype, tensor.between, generator)
            free = [
                at for at, dim in enumerate(tensor.dims, 1) if not isinstance(dim, int) or dim < 0
            ]
            row[name] = values if tensor.between else row_trial.padded(number, values, free)
        rows.append(row)
    canary = declared.canary
    if canary is None or declared.graph_inputs is not declared.inputs:
        return rows
    given = {n: canary_row(declared.inputs[n], held, True) for n, held in canary.inputs.items()}
    if {n: v.shape for n, v in given.items()} == {n: v.shape for n, v in rows[0].items()}:
        rows.insert(0, given)
    return rows
