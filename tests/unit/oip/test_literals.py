"""Numbers and strings in the bytes that Triton 2.51 was seen to write."""

from __future__ import annotations

import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocols.oip import grisu, literals

FINITE = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(min_value=0, exclude_min=True, allow_infinity=False)

# each answered by the server itself
WRITTEN = [
    (1e-7, "1e-7"),
    (1e-5, "0.00001"),
    (1e-6, "0.000001"),
    (0.1, "0.1"),
    (1.5, "1.5"),
    (1e20, "100000000000000000000.0"),
    (1e21, "1e21"),
    (1e22, "1e22"),
    (123456789.0, "123456789.0"),
    (3.4e38, "3.4e38"),
    (-0.0, "-0.0"),
    (0.0, "0.0"),
    (1e16, "10000000000000000.0"),
    (2.5e-9, "2.5e-9"),
    (1e300, "1e300"),
    (5e-324, "5e-324"),
    (0.13436424411240122, "0.13436424411240123"),
    (1410.3029498300134, "1410.3029498300135"),
    (-8.761089689572897e159, "-8.761089689572898e159"),
    (1.0790162290381342e247, "1.0790162290381343e247"),
    (17063508174203953000.0, "17063508174203954000.0"),
    (-363.95538330078125, "-363.95538330078127"),
    (math.nan, "NaN"),
    (math.inf, "Infinity"),
    (-math.inf, "-Infinity"),
]


@pytest.mark.parametrize(("value", "text"), WRITTEN)
def test_a_double_is_written_as_triton_writes_it(value: float, text: str) -> None:
    assert literals.double(value) == text


@given(FINITE)
def test_a_written_double_reads_back_the_same(value: float) -> None:
    for digits in (grisu.digits, literals.shortest):
        assert struct.pack("<d", float(literals.double(value, digits))) == struct.pack("<d", value)


@given(POSITIVE)
def test_the_quick_digits_are_as_many_or_fewer(value: float) -> None:
    assert len(literals.shortest(value)[0]) <= len(grisu.digits(value)[0])


# each read by the server itself: a unit in the last place beside the nearest double, or not
@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (1893001113576509.0, 1893001113576508.8),
        (1e-45, 1.0000000000000002e-45),
        (0.1, 0.1),
        (123456.789, 123456.789),
        (1e300, 1e300),
        (7, 7.0),
        (-0.0, -0.0),
    ],
)
def test_a_double_is_read_as_triton_reads_it(sent: float, read: float) -> None:
    assert literals.as_triton_reads(sent) == read


@given(FINITE.filter(lambda value: abs(value) < 1e300))
def test_a_read_double_is_at_most_three_units_away(value: float) -> None:
    found = literals.as_triton_reads(value)
    assert abs(found - value) <= 3 * math.ulp(value)
    assert math.copysign(1, found) == math.copysign(1, value)


@given(st.text())
def test_a_string_reads_back_the_same(text: str) -> None:
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert json.loads(literals.string(text.encode())) == text


def test_strings_escape_what_triton_escapes_and_no_more() -> None:
    assert (
        literals.string('\u2028\x1f\t\b<>\\/"'.encode())
        == '"\u2028\\u001F\\t\\b<>\\\\/\\""'.encode()
    )
    assert literals.string(b"a\xff\x00") == b'"a\xff\\u0000"'
