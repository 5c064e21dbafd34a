"""Numbers that integers may be: one digit an element, in groups, or whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from gateway.classify.scanner.cards import is_card_number

Integers = npt.NDArray[np.int64]
"""Elements in rows; negative: no whole number."""

_LIST = 40  # elements up to which there is nothing but what was meant
_LARGE = 1_000_000  # from which on a number may identify somebody by itself
_DIGIT_RUN = re.compile(rb"[0-9]{9,}")
_FILLED = re.compile(rb"(0*)([1-9][0-9]*?)(0*)")
_FILLING = 4  # zeros, from which on they are none of a number
_MOST_DIGITS = 40
_GROUPED = (
    (4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 6, 5), (4, 6, 4), (4, 4, 5), (4, 4, 4, 1), (4, 4, 4, 3),
)  # fmt: skip
_SOCIAL = (3, 2, 4)
_MOST_GROUPS = 8  # elements of a row of groups, and the zeros behind them
_MOST_ROWS = 4096  # that are looked at
_FEW_ROWS, _SHARE = 8, 0.3  # of more rows so many must be numbers, or it is chance


def numbers_in(rows: Integers, *, social: bool) -> Iterator[str]:
    """`social`: also of three groups, as the United States write a person's number, and nobody a
    shape."""
    yield from digits_in(rows)
    yield from _groups(rows, social)
    large = np.abs(rows[(rows >= _LARGE) | (rows <= -_LARGE)])
    if large.size:
        for number in np.unique(large).tolist():
            yield str(number)


def digits_in(rows: Integers) -> Iterator[str]:
    """Numbers of one digit an element: in each row, and across them."""
    digit = (rows >= 0) & (rows <= 9)
    if np.count_nonzero(digit) < 9:
        return
    signs = np.where(digit, rows + 48, np.where((rows > 9) & (rows < 32), 43, 46)).astype(np.uint8)
    small = rows.size <= _LIST
    yield from _runs(signs.tobytes(), small)
    if len(rows) > 1 and rows.shape[1] >= 9:
        apart = np.full((len(rows), rows.shape[1] + 1), 46, np.uint8)
        apart[:, :-1] = signs
        yield from _runs(apart.tobytes(), small)


def _runs(signs: bytes, small: bool) -> Iterator[str]:
    """`signs`: digits, `+` for what is almost one, `.` for all else. In a picture's dark places
    digits stand among such and among zeros."""
    for match in _DIGIT_RUN.finditer(signs):
        filled = _FILLED.fullmatch(match[0])
        if filled is None:
            continue
        first, number, last = filled.groups()
        if len(number) > _MOST_DIGITS or not is_number(number):
            continue
        if not small and b"+" in signs[max(0, match.start() - 1) : match.end() + 1]:
            continue
        for start in _fillings(first):
            for end in _fillings(last):
                yield (start + number + end).decode()


def _fillings(zeros: bytes) -> list[bytes]:
    """What of the zeros beside a number may be a part of it: all, unless they fill up a row."""
    return [zeros] if len(zeros) < _FILLING else [b"0" * count for count in range(3)]


def _groups(rows: Integers, social: bool) -> Iterator[str]:
    """Numbers in groups, one an element."""
    four = (rows >= 1000) & (rows <= 9999)
    if rows.shape[1] <= _MOST_GROUPS:
        short = rows[((rows >= 0) & (rows <= 999_999)).all(axis=1)]
        numbers = [
            number for row in short[:_MOST_ROWS].tolist() for number in _whole_row(row, social)
        ]
        if len(short) <= _FEW_ROWS or len(numbers) >= _SHARE * len(short):  # else by chance
            yield from numbers
    if rows.size > rows.shape[1]:
        yield from _windows(rows.reshape(1, -1), four.reshape(1, -1))
    else:
        yield from _windows(rows, four)


def _whole_row(row: list[int], social: bool) -> Iterator[str]:
    for sizes in _GROUPED:
        shown = row[: len(sizes)]
        if len(shown) == len(sizes) and not any(row[len(sizes) :]):
            parts = [f"{n:0{size}d}" for n, size in zip(shown, sizes, strict=True)]
            if [*map(len, parts)] == [*sizes] and is_card_number("".join(parts)):
                yield " ".join(parts)
    if social and len(row) >= 3 and not any(row[3:]):
        parts = [f"{n:0{size}d}" for n, size in zip(row, _SOCIAL, strict=False)]
        filled = sum([size - len(str(n)) for n, size in zip(row, _SOCIAL, strict=False)])
        if (*map(len, parts),) == _SOCIAL and filled <= 1:
            yield "-".join(parts)


def _windows(rows: Integers, four: npt.NDArray[np.bool_]) -> Iterator[str]:
    """Four groups of four between elements of another kind: smaller than a hundred, or none."""
    if rows.shape[1] < 5:
        return
    fits = (rows >= 0) & (rows <= 9999)
    count = four[:, 1:-2].astype(np.int8) + four[:, 2:-1] + four[:, 3:]
    windows = four[:, :-3] & fits[:, 1:-2] & fits[:, 2:-1] & fits[:, 3:] & (count >= 2)
    apart = rows < 100
    windows[:, 1:] &= apart[:, :-4]
    windows[:, :-1] &= apart[:, 4:]
    places = np.argwhere(windows)
    if len(places) > _FEW_ROWS:
        return
    for row, column in places.tolist():
        digits = "".join([f"{n:04d}" for n in rows[row, column : column + 4].tolist()])
        if is_card_number(digits):
            yield digits


def is_number(digits: bytes) -> bool:
    """More than one digit, and others than those of a mask."""
    return len(set(digits)) > 1 and not set(digits) <= set(b"01")
