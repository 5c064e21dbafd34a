"""Decimal digits of a double by Grisu2 (Loitsch, "Printing floating-point numbers quickly and
accurately with integers", PLDI 2010), which Triton writes its JSON with.

They always read back as the same double, but in a third of all cases are not the digits that
`repr` gives. An answer that crosses from gRPC to REST needs Triton's own.
"""

from __future__ import annotations

import math
from functools import cache

_HIDDEN = 1 << 52
_MASK = (1 << 64) - 1
_ALPHA = -61  # products have exponents from here on, so that their whole part fits 32 bits
_FIRST, _STEP = -348, 8  # the decimal exponents of the cached powers
_TENS = [10**n for n in range(11)]
_ROUNDED_PLACES = 8  # Triton's copy brings only so many places nearer, hence its odd last digits


def digits(value: float) -> tuple[str, int]:
    """Significant digits of a positive finite double, and where the point stands relative to the
    first of them."""
    if value < _HIDDEN and value == int(value):
        text = str(int(value))
        return text.rstrip("0"), len(text)
    fraction, exponent = _parts(value)
    low, high, shared = _boundaries(fraction, exponent)
    power, power_exponent, tens = _cached(_index(shared))
    shift = 64 - fraction.bit_length()
    middle = _product(fraction << shift, power)
    high = _product(high, power) - 1
    low = _product(low, power) + 1
    digits, kappa = _generate(middle, high, high - low, -(shared + power_exponent + 64))
    text = "".join(map(str, digits))
    return text.rstrip("0") or "0", len(digits) + kappa + tens


def _parts(value: float) -> tuple[int, int]:
    """The integer significand, and its power of two."""
    exponent = max(math.frexp(value)[1] - 53, -1074)
    half = -exponent // 2  # in two steps, for 2**1074 is no double
    return int(math.ldexp(math.ldexp(value, half), -exponent - half)), exponent


def _boundaries(fraction: int, exponent: int) -> tuple[int, int, int]:
    """The neighbours' midpoints below and above as 64-bit significands, and their exponent."""
    high, shared = 2 * fraction + 1, exponent - 1
    shift = 64 - high.bit_length()
    high, shared = high << shift, shared - shift
    if fraction == _HIDDEN:  # the neighbour below is half as far
        return (4 * fraction - 1) << (exponent - 2 - shared), high, shared
    return (2 * fraction - 1) << (exponent - 1 - shared), high, shared


def _index(exponent: int) -> int:
    estimate = (_ALPHA - exponent) * 0.30102999566398114 + 347
    return (math.ceil(estimate) >> 3) + 1


@cache
def _cached(index: int) -> tuple[int, int, int]:
    """The 64-bit significand and binary exponent of a power of ten, and the decimal exponent that
    multiplying by it takes away."""
    tens = _FIRST + _STEP * index
    top, bottom = (10**tens, 1) if tens >= 0 else (1, 10**-tens)
    exponent = top.bit_length() - bottom.bit_length() - 64
    significand = _divided(top, bottom, exponent)
    if significand > _MASK:
        exponent += 1
        significand = _divided(top, bottom, exponent)
    return significand, exponent, -tens


def _divided(top: int, bottom: int, exponent: int) -> int:
    """top / bottom / 2**exponent, to the nearest."""
    if exponent < 0:
        top <<= -exponent
    else:
        bottom <<= exponent
    return (2 * top + bottom) // (2 * bottom)


def _product(one: int, other: int) -> int:
    return (one * other + (1 << 63)) >> 64


def _generate(middle: int, high: int, delta: int, bits: int) -> tuple[list[int], int]:
    """The digits, and the decimal exponent of the last. `bits` of the numbers are fraction."""
    digits: list[int] = []
    distance, unit = high - middle, 1 << bits
    whole, rest = high >> bits, high & (unit - 1)
    kappa = len(str(whole))
    while kappa > 0:
        kappa -= 1
        digit, whole = divmod(whole, _TENS[kappa])
        if digit or digits:
            digits.append(digit)
        left = (whole << bits) + rest
        if left <= delta:
            _closer(digits, delta, left, _TENS[kappa] << bits, distance)
            return digits, kappa
    while True:
        rest, delta = rest * 10, delta * 10
        digit, rest = rest >> bits, rest & (unit - 1)
        if digit or digits:
            digits.append(digit)
        kappa -= 1
        if rest < delta:
            scaled = distance * _TENS[-kappa] & _MASK if -kappa <= _ROUNDED_PLACES else 0
            _closer(digits, delta, rest, unit, scaled)
            return digits, kappa


def _closer(digits: list[int], delta: int, rest: int, unit: int, distance: int) -> None:
    """Lower the last digit while that brings it nearer to the number."""
    while (
        rest < distance
        and delta - rest >= unit
        and (rest + unit < distance or distance - rest > rest + unit - distance)
    ):
        digits[-1] -= 1
        rest += unit
