"""How good outputs are: against the reference's, or against labels. 1 is the best of each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gateway.models.declaration import Declaration
from gateway.models.declaration.variants import Metric
from gateway.models.failures import WrongModel
from gateway.models.samples import DataSet
from gateway.models.sessions import Array, Session

Floats = npt.NDArray[np.float64]


def run_outputs(session: Session, data: DataSet, declared: Declaration) -> Floats:
    """The judged output over the whole data set."""
    assert declared.accuracy is not None
    name = declared.accuracy.output or next(iter(declared.outputs))
    return np.concatenate([np.asarray(session.run(s.feed)[name]) for s in data.batches]).astype(
        np.float64
    )


def measured(metric: Metric, outputs: Floats, reference: Floats, labels: Array | None) -> float:
    against = reference
    if metric in (Metric.AUC, Metric.ACCURACY):
        if labels is None:
            raise WrongModel(f"{metric} is against labels, and the data set has no `label`")
        against = labels.astype(np.float64)
    return float(_METRICS[metric](outputs, against))


def spearman(left: Floats, right: Floats) -> float:
    """The correlation of ranks; ties share the mean of their ranks."""
    return float(np.corrcoef(_ranks(left), _ranks(right))[0, 1])


def _pairwise(outputs: Floats, reference: Floats) -> float:
    upper = np.triu_indices(len(outputs), 1)
    return spearman(_similarities(outputs)[upper], _similarities(reference)[upper])


def _similarities(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled = vectors / np.maximum(lengths, 1e-12)
    return np.asarray(scaled @ scaled.T)


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse], dtype=np.float64)


def _agreement(outputs: Floats, reference: Floats) -> float:
    return float((outputs.argmax(axis=-1) == reference.argmax(axis=-1)).mean())


def _accuracy(outputs: Floats, labels: Floats) -> float:
    return float((outputs.argmax(axis=-1) == labels.ravel()).mean())


def auc(scores: Floats, labels: Floats) -> float:
    """The chance that a positive scores above a negative."""
    positive = labels.ravel() > 0.5
    ranks, positives = _ranks(scores.ravel()), int(positive.sum())
    negatives = len(positive) - positives
    if not positives or not negatives:
        raise WrongModel("the data set must have positives and negatives among its labels")
    won = ranks[positive].sum() - positives * (positives + 1) / 2
    return float(won / (positives * negatives))


_METRICS: dict[Metric, Callable[[Floats, Floats], float]] = {
    Metric.SPEARMAN: _pairwise,
    Metric.AGREEMENT: _agreement,
    Metric.AUC: auc,
    Metric.ACCURACY: _accuracy,
}
