"""The ways in which a caller states how long it can wait; the tightest of them wins (D1, D2).

Stated budgets (`x-latency-budget-ms`, the v2 parameter `timeout`) must make sense or the call is
refused. Hints that client libraries send by themselves (`grpc-timeout`,
`x-stainless-read-timeout`) are often larger than any sensible budget and are then cut to the
maximum.
"""

from __future__ import annotations

import math

from gateway.core.errors import InvalidBudget
from gateway.core.types import Parameter


def from_header_ms(raw: str, max_s: float) -> float:
    """Seconds from `x-latency-budget-ms`: a positive decimal number of milliseconds."""
    return _stated(_number(raw, "x-latency-budget-ms") / 1000, "x-latency-budget-ms", max_s)


def from_v2_timeout_us(raw: Parameter, max_s: float) -> float:
    """Seconds from the request parameter `timeout` of Triton's v2 extension: microseconds, or
    the decimal digits of them."""
    if isinstance(raw, str):
        raw = _number(raw, "timeout")
    if isinstance(raw, bool) or not isinstance(raw, int | float):  # guard: D2.boolean minus 1
        raise InvalidBudget("parameter timeout: must be a whole number of microseconds")
    try:
        return _stated(raw / 1e6, "parameter timeout", max_s)
    except OverflowError:  # guard: D2.overflow -> except ZeroDivisionError:
        raise InvalidBudget("parameter timeout: is larger than the maximum") from None


def from_stainless_s(raw: str, max_s: float) -> float | None:
    """Seconds from `x-stainless-read-timeout`, which the OpenAI SDKs send; a hint, so what makes
    no sense is ignored."""
    try:
        value = float(raw) if len(raw) <= 32 else math.nan
    except ValueError:
        return None
    return min(value, max_s) if value > 0 else None


def from_grpc_s(remaining_s: float | None, max_s: float) -> float | None:
    """Seconds left of the deadline that gRPC carries as `grpc-timeout`."""
    if remaining_s is None or math.isnan(remaining_s):
        return None
    return min(remaining_s, max_s)


def _number(raw: str, name: str) -> float:
    text = raw.strip()
    # guard: D2.number-syntax -> if not text or len(text) > 32:
    if not text or len(text) > 32 or not text.isascii() or "_" in text:
        raise InvalidBudget(f"{name}: must be a decimal number")
    try:
        return float(text)
    except ValueError:
        raise InvalidBudget(f"{name}: must be a decimal number") from None


def _stated(seconds: float, name: str, max_s: float) -> float:
    if not math.isfinite(seconds) or seconds <= 0:  # guard: D2.positive-finite
        raise InvalidBudget(f"{name}: must be greater than zero; leave it out for no budget")
    if seconds > max_s:  # guard: D2.maximum
        raise InvalidBudget(f"{name}: must be at most {max_s:g} s")
    return seconds
