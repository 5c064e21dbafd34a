"""Time and chance: the only module that reads a clock or draws lots.

All else takes them from here, as a function or injected, so that a simulation (tests/simulation)
can put its own in their place: then any seed replays exactly, to the last id.
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Final

_FRACTION_BITS: Final = 53  # of a float
_BLOCK_BYTES: Final = 4096  # asked of the system at once, for ids
_PIECE_DIGITS: Final = 16
_VARIANT: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


@dataclass(frozen=True, slots=True)
class Sources:
    monotonic_s: Callable[[], float] = time.monotonic
    wall_s: Callable[[], float] = time.time
    random_bytes: Callable[[int], bytes] = os.urandom


_sources = Sources()


@contextmanager
def drawn_from(sources: Sources) -> Iterator[None]:
    """For a simulation: everything in this process has its time and its lots from `sources`."""
    global _sources
    before, _sources = _sources, sources
    _pieces.clear()
    try:
        yield
    finally:
        _sources = before
        _pieces.clear()


def monotonic_s() -> float:
    """Seconds that only go forward."""
    return _sources.monotonic_s()


def wall_s() -> float:
    """Seconds since 1970, for people and other machines; never to measure with."""
    return _sources.wall_s()


def loop_s() -> float:
    """The time of the running loop: what its timers are set by."""
    return asyncio.get_running_loop().time()


def random_bytes(count: int) -> bytes:
    """Fit for keys: of nothing that was in memory before."""
    return _sources.random_bytes(count)


def random_hex(count: int) -> str:
    """`count` random bytes, in twice as many digits. Nobody can foretell them."""
    if count == 8:
        return _piece()
    if count == 16:
        return _piece() + _piece()
    return random_bytes(count).hex()


def new_id() -> str:
    """A random UUID (RFC 9562, version 4), as text."""
    a, b = _piece(), _piece()
    return f"{a[:8]}-{a[8:12]}-4{a[13:]}-{_VARIANT[b[0]]}{b[1:4]}-{b[4:]}"


_pieces: list[str] = []
"""Digits that no id has had yet. A fork leaves them to the parent: no two processes draw the same.
"""
os.register_at_fork(after_in_child=_pieces.clear)


def _piece() -> str:
    """Eight random bytes in digits; one call of the system does for many ids."""
    while True:
        try:
            return _pieces.pop()  # by one of the threads alone
        except IndexError:
            digits = random_bytes(_BLOCK_BYTES).hex()
            _pieces.extend(
                digits[at : at + _PIECE_DIGITS] for at in range(0, len(digits), _PIECE_DIGITS)
            )


def new_uuid() -> uuid.UUID:
    return uuid.UUID(bytes=random_bytes(16), version=4)


class Lots(Random):
    """Numbers that nobody can foretell, each drawn from `random_bytes`. It cannot be seeded."""

    def random(self) -> float:
        return self.getrandbits(_FRACTION_BITS) * 2.0**-_FRACTION_BITS

    def getrandbits(self, count: int, /) -> int:
        size = (count + 7) // 8
        return int.from_bytes(random_bytes(size)) >> (size * 8 - count)

    def seed(self, *args: object, **kwargs: object) -> None:
        """There is none."""
