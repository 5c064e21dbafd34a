"""D1, D2: a stated budget makes sense or the call is refused; a hint is cut to what does."""

from __future__ import annotations

import math

import pytest

from gateway.core.errors import InvalidBudget
from gateway.server import latency_budget

MAX_S = 60.0


@pytest.mark.parametrize(
    ("raw", "seconds"),
    [("250", 0.25), ("0.5", 0.0005), (" 1000 ", 1.0), ("1e3", 1.0), ("60000", 60.0), ("+5", 0.005)],
)
def test_the_header_is_in_milliseconds(raw: str, seconds: float) -> None:
    assert latency_budget.from_header_ms(raw, MAX_S) == pytest.approx(seconds)


NONSENSE = [
    "", " ", "0", "0.0", "-0", "-1", "-0.001", "nan", "NaN", "-nan", "inf", "-inf", "Infinity",
    "1e999", "-1e999", "abc", "1,5", "1_000", "0x10", "\uff11\uff12", "\u0663", "1 2", "5ms",
    "1" * 33, "\x00",
]  # fmt: skip


@pytest.mark.parametrize("raw", [*NONSENSE, "60001", "1e30"])
def test_a_header_that_makes_no_sense_is_refused(raw: str) -> None:
    with pytest.raises(InvalidBudget) as caught:
        latency_budget.from_header_ms(raw, MAX_S)
    assert caught.value.http_status == 400
    assert caught.value.grpc_status == "INVALID_ARGUMENT"
    assert "x-latency-budget-ms" in caught.value.message


@pytest.mark.parametrize(
    ("raw", "seconds"), [(250_000, 0.25), ("250000", 0.25), (1, 1e-6), (60_000_000, 60.0)]
)
def test_the_v2_parameter_is_in_microseconds(raw: int | str, seconds: float) -> None:
    assert latency_budget.from_v2_timeout_us(raw, MAX_S) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "raw",
    [*NONSENSE, 0, -1, True, False, math.nan, math.inf, -math.inf, 60_000_001, 10**400, -(10**400)],
)
def test_a_v2_parameter_that_makes_no_sense_is_refused(raw: int | float | str | bool) -> None:
    with pytest.raises(InvalidBudget) as caught:
        latency_budget.from_v2_timeout_us(raw, MAX_S)
    assert "timeout" in caught.value.message


@pytest.mark.parametrize("raw", NONSENSE)
def test_no_refusal_repeats_what_was_sent(raw: str) -> None:
    marked = f"{raw}MARKER"
    for read in (latency_budget.from_header_ms, latency_budget.from_v2_timeout_us):
        with pytest.raises(InvalidBudget) as caught:
            read(marked, MAX_S)
        assert "MARKER" not in caught.value.message


@pytest.mark.parametrize(
    ("raw", "seconds"),
    [
        ("600", MAX_S), ("30", 30.0), ("0.5", 0.5), ("inf", MAX_S), ("1e999", MAX_S),
        ("0", None), ("-1", None), ("nan", None), ("abc", None), ("", None), ("9" * 40, None),
    ],
)  # fmt: skip
def test_a_hint_of_an_sdk_is_cut_to_the_maximum_or_ignored(raw: str, seconds: float | None) -> None:
    assert latency_budget.from_stainless_s(raw, MAX_S) == seconds


@pytest.mark.parametrize(
    ("remaining_s", "seconds"),
    [(None, None), (math.nan, None), (5.0, 5.0), (1e9, MAX_S), (math.inf, MAX_S), (-1.0, -1.0)],
)
def test_the_deadline_of_grpc_is_cut_to_the_maximum_and_may_have_passed(
    remaining_s: float | None, seconds: float | None
) -> None:
    assert latency_budget.from_grpc_s(remaining_s, MAX_S) == seconds
