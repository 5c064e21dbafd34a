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
    try:
        yield
    finally:
        _sources = before


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
    """Fit for keys."""
    return _sources.random_bytes(count)


def random_hex(count: int) -> str:
    """`count` random bytes, in twice as many digits."""
    return random_bytes(count).hex()


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
