"""How near a text is to the examples of a category: a linear rule over vectors, and its threshold.

The rule is the ridge regression that gives 1 to the examples and -1 to the benign prompts, both
sides weighing the same. Of it, the score that each text has under the rule of all others is known
without fitting again (leave-one-out): residuals divided by what is left of their own weight. The
threshold is the score that one in a hundred benign prompts reaches. What share of the examples
reaches it says how well the category can be recognised; where that is less than half, it cannot.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gateway.classify import ScannerUnfit
from gateway.classify.categories.embeddings import Vectors

RIDGE = 0.1
"""Of 0.003 to 0.3, what tells unseen texts apart best; other kernels do no better."""
BENIGN_BELOW = 0.99
GATE_BELOW = 0.7
"""Of the sentences of recorded chats a third pass, and 99 in 100 of those that are near."""
LEAST_CAUGHT = 0.5

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Nearness:
    """Scores are 0 to 1; from `threshold` on a text is near. `caught`: of `count` examples, how
    many are near by the rule that all others make."""

    weights: Floats = field(repr=False)
    bias: float
    threshold: float
    caught: int
    count: int

    def scores(self, vectors: Vectors) -> Floats:
        scores: Floats = _as_score(vectors @ self.weights + self.bias)
        return scores


def fit(name: str, examples: Vectors, benign: Vectors, threshold: float | None = None) -> Nearness:
    """`threshold`: the operator's own. Raises ScannerUnfit where the examples are not alike."""
    rule, near, harmless = _rule(examples, benign)
    if threshold is None:
        threshold = round(float(np.quantile(harmless, BENIGN_BELOW)), 3)
    caught, count = int((near >= threshold).sum()), len(near)
    if caught < LEAST_CAUGHT * count:
        raise ScannerUnfit(
            f"classify.categories.{name}: only {caught} of {count} examples are near to the others "
            "(leave-one-out); give more that are alike, or lower the threshold"
        )
    return Nearness(rule[:-1], float(rule[-1]), threshold, caught, count)


def fit_gate(examples: Vectors, benign: Vectors) -> Nearness:
    """Of vectors that cost little: passes three in ten of the benign prompts, and every example."""
    rule, near, harmless = _rule(examples, benign)
    threshold = min(float(np.quantile(harmless, GATE_BELOW)), float(near.min()))
    return Nearness(rule[:-1], float(rule[-1]), threshold, len(near), len(near))


def _rule(examples: Vectors, benign: Vectors) -> tuple[Floats, Floats, Floats]:
    """The rule, and the scores of examples and benign prompts under the rules of all others."""
    count = len(examples)
    rows = np.concatenate([examples, benign]).astype(np.float64)
    rows = np.c_[rows, np.ones(len(rows))]
    wanted = np.r_[np.ones(count), -np.ones(len(benign))]
    weight = np.r_[np.full(count, 0.5 / count), np.full(len(benign), 0.5 / len(benign))]
    penalty = np.diag(np.r_[np.full(rows.shape[1] - 1, RIDGE), 0.0])
    inverse = np.linalg.inv(rows.T @ (rows * weight[:, None]) + penalty)
    rule = inverse @ (rows.T @ (weight * wanted))
    own = np.einsum("ij,jk,ik->i", rows, inverse, rows) * weight
    left_out = _as_score((rows @ rule - own * wanted) / (1 - own))
    return rule, left_out[:count], left_out[count:]


def _as_score(raw: Floats) -> Floats:
    return np.clip((raw + 1) / 2, 0, 1)
