"""The metrics of the accuracy gate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.models.declaration.variants import Metric
from gateway.models.failures import WrongModel
from gateway.models.variants import accuracy


def test_ties_share_the_mean_of_their_ranks() -> None:
    left, right = np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0])
    assert accuracy.spearman(left, right) == pytest.approx(0.9486833)


@given(st.lists(st.integers(-100, 100), min_size=3, max_size=30, unique=True))
def test_ranks_see_the_order_alone(values: list[int]) -> None:
    held = np.array(values, float)
    assert accuracy.spearman(held, np.arctan(held / 50)) == pytest.approx(1)
    assert accuracy.spearman(held, -held) == pytest.approx(-1)


@given(st.integers(2, 40), st.integers(0, 1000))
def test_vectors_that_were_turned_or_scaled_are_as_similar_as_before(rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(0, 1, (rows + 1, 4))
    turned = (
        vectors @ np.linalg.qr(rng.normal(0, 1, (4, 4)))[0] * rng.uniform(0.5, 2, (rows + 1, 1))
    )
    rounded = np.round(turned, 12)
    found = accuracy.measured(Metric.SPEARMAN, rounded, vectors, None)
    assert found == pytest.approx(1, abs=0.05)


def test_area_under_the_curve_is_the_chance_of_the_right_order() -> None:
    found, labels = np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1])
    assert accuracy.auc(found, labels.astype(float)) == pytest.approx(0.75)


def test_agreement_and_accuracy_count_rows() -> None:
    scores = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    other = np.array([[0.2, 0.8], [0.1, 0.9], [0.4, 0.6], [0.9, 0.1]])
    labels = np.array([1, 0, 0, 0])
    assert accuracy.measured(Metric.AGREEMENT, other, scores, None) == 0.75
    assert accuracy.measured(Metric.ACCURACY, scores, scores, labels) == 0.75


@pytest.mark.parametrize("metric", [Metric.AUC, Metric.ACCURACY])
def test_a_metric_against_labels_needs_them(metric: Metric) -> None:
    with pytest.raises(WrongModel, match="has no `label`"):
        accuracy.measured(metric, np.ones((2, 2)), np.ones((2, 2)), None)


def test_labels_of_one_kind_alone_measure_nothing() -> None:
    with pytest.raises(WrongModel, match="positives and negatives"):
        accuracy.auc(np.array([0.1, 0.2]), np.array([1.0, 1.0]))
