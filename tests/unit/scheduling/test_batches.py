"""What a server takes for a batch, learnt from its last batches."""

from __future__ import annotations

import random

import pytest

from gateway.scheduling.estimates.batches import BatchModel

A, B = 0.008, 0.002


def taught(batches: int, spread: float = 0.0, a: float = A, b: float = B) -> BatchModel:
    draw = random.Random(3)
    model = BatchModel(0.02, 0.001)
    for _ in range(batches):
        work = draw.uniform(1, 16)
        model.observe(work, (a + b * work) * draw.lognormvariate(0.0, spread))
    return model


def test_both_parts_of_a_batch_are_learnt() -> None:
    model = taught(64)
    assert model.fixed_s == pytest.approx(A, rel=0.02)
    assert model.per_work_s == pytest.approx(B, rel=0.02)


@pytest.mark.parametrize("work", [1.0, 4.0, 16.0])
def test_in_steady_state_the_error_is_within_a_tenth_above_and_a_twentieth_below(
    work: float,
) -> None:
    predicted_s = taught(200, spread=0.05).predict_s(work)
    assert -0.05 <= predicted_s / (A + B * work) - 1 <= 0.10


def test_a_prediction_is_never_below_the_measured_median() -> None:
    """Most batches take 40 ms, some are answered from a cache at once: the mean, which is what
    least squares finds, would be 10 % too low."""
    model = BatchModel(A, B)
    for at in range(128):
        model.observe(16.0, 0.010 if at % 8 == 0 else 0.040)
    assert model.predict_s(16.0) >= 0.040


def test_a_cold_model_is_cautious_and_neither_best_nor_excluded() -> None:
    model = BatchModel(A, B)
    assert model.cold
    assert 1.1 < model.predict_s(16.0) / (A + B * 16) < 2


def test_a_few_batches_do_not_end_the_caution() -> None:
    model = BatchModel(A, B)
    for _ in range(4):
        model.observe(16.0, A + B * 16)
    assert model.cold
    assert model.predict_s(16.0) > 1.2 * (A + B * 16)


def test_a_model_that_has_seen_enough_is_not_cold() -> None:
    model = BatchModel(A, B)
    for _ in range(8):
        model.observe(16.0, A + B * 16)
    assert not model.cold
    assert model.predict_s(16.0) == pytest.approx(A + B * 16, rel=0.01)


def test_batches_that_are_all_alike_scale_what_was_expected() -> None:
    """Their times say nothing of what a smaller one would take."""
    model = BatchModel(A, B)
    for _ in range(50):
        model.observe(16.0, 2 * (A + B * 16))
    assert model.predict_s(1.0) == pytest.approx(2 * (A + B), rel=0.01)


def test_a_server_that_becomes_slower_is_followed_within_fifty_batches() -> None:
    model = taught(200)
    draw = random.Random(4)
    for _ in range(50):
        work = draw.uniform(1, 16)
        model.observe(work, 2 * (A + B * work))
    assert model.predict_s(16.0) >= 0.95 * 2 * (A + B * 16)


def test_the_error_of_the_predictions_is_measured() -> None:
    model = BatchModel(A, B)
    assert model.error.batches == 0
    for _ in range(100):
        model.observe(8.0, A + B * 8)
    assert model.error.batches == 100
    assert model.error.mean == pytest.approx(0.0, abs=0.05)
    model.observe(8.0, 4 * (A + B * 8))
    assert model.error.mean < 0.0 < model.error.absolute


def test_the_spread_of_batches_is_measured_robustly() -> None:
    steady, spread = taught(100), taught(100, spread=0.1)
    assert steady.sigma_s < 0.001 < spread.sigma_s
    before_s = spread.sigma_s
    spread.observe(16.0, 9.0)
    assert spread.sigma_s < 20 * before_s


@pytest.mark.parametrize(
    ("work", "took_s"),
    [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (1.0, float("nan")), (1.0, float("inf"))],
)
def test_nonsense_teaches_nothing(work: float, took_s: float) -> None:
    model = BatchModel(A, B)
    model.observe(work, took_s)
    assert model.cold
    assert model.error.batches == 0


def test_a_batch_takes_time() -> None:
    with pytest.raises(ValueError, match="takes time"):
        BatchModel(0.0, 0.0)


def test_where_every_call_is_a_batch_its_time_is_fitted_now_and_then() -> None:
    each, eighth = BatchModel(0.01, 0.01), BatchModel(0.01, 0.01, fits_every=8)
    for at in range(64):
        for model in (each, eighth):
            model.observe(1.0 + at % 5, 0.02 + 0.005 * (at % 5))
        assert eighth.predict_s(3.0) == each.predict_s(3.0)  # as long as they are few
    before_s = eighth.predict_s(3.0)
    for _ in range(7):
        eighth.observe(3.0, 0.3)
    assert eighth.predict_s(3.0) == before_s
    eighth.observe(3.0, 0.3)
    assert eighth.predict_s(3.0) > before_s
