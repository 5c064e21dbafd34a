"""Time and chance: the only module that reads a clock or draws lots.

All else takes them from here, as a function or injected, so that a simulation (tests/simulation)
can put its own in their place: then any seed replays exactly, to the last id.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

_FRACTION_BITS: Final = 53  # of a float
_BLOCK_BYTES: Final = 4096  # asked of the system at once, for ids
_IDS: Final = _BLOCK_BYTES // 16
_DRAWN: Final = int("ffffffffffff0fff3fffffffffffffff" * _IDS, 16)  # the bits of them that are
_VERSION_4: Final = int("00000000000040008000000000000000" * _IDS, 16)  # and those that say so
_PARTS: Final = struct.Struct("8s4s4s4s12s")  # of an id's digits, between its dashes
_TRACE: Final = struct.Struct("32s16s")
_TRACES_BYTES: Final = 170 * 24


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
    _forget()
    try:
        yield
    finally:
        _sources = before
        _forget()


def clock() -> Callable[[], float]:
    """What `monotonic_s` asks now, to be kept by whoever reads it for every call. It stays what it
    is: whoever keeps it is made when a simulation has put its sources in place."""
    return _sources.monotonic_s


def monotonic_s() -> float:
    """Seconds that only go forward."""
    return _sources.monotonic_s()


def wall_s() -> float:
    """Seconds since 1970, for people and other machines; never to measure with."""
    return _sources.wall_s()


def calendar() -> Callable[[], float]:
    """What `wall_s` asks now, to be kept as `clock` is."""
    return _sources.wall_s


def loop_s() -> float:
    """The time of the running loop: what its timers are set by."""
    import asyncio  # a twentieth of a second for a scan worker, which has no loop

    return asyncio.get_running_loop().time()


def loop_clock(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """What `loop_s` asks in this loop, to be kept."""
    return loop.time


def random_bytes(count: int) -> bytes:
    """Fit for keys: of nothing that was in memory before."""
    return _sources.random_bytes(count)


def random_hex(count: int) -> str:
    """`count` random bytes, in twice as many digits. Nobody can foretell them."""
    drawn = _digits.get(count)
    if drawn is None:
        return random_bytes(count).hex()
    while True:
        try:
            return drawn.pop()  # by one of the threads alone
        except IndexError:  # one call of the system does for many
            drawn.extend(random_bytes(_BLOCK_BYTES).hex("-", count).split("-"))


def new_trace() -> str:
    """The ids of a trace and of a span in it, as a traceparent has them."""
    while True:
        try:
            return _traces.pop()
        except IndexError:
            digits = _TRACE.iter_unpack(random_bytes(_TRACES_BYTES).hex().encode())
            _traces.extend(b" ".join(map(b"-".join, digits)).decode().split())


def new_id() -> str:
    """A random UUID (RFC 9562, version 4), as text."""
    while True:
        try:
            return _ids.pop()
        except IndexError:
            drawn = int.from_bytes(random_bytes(_BLOCK_BYTES)) & _DRAWN | _VERSION_4
            digits = _PARTS.iter_unpack(drawn.to_bytes(_BLOCK_BYTES).hex().encode())
            _ids.extend(b" ".join(map(b"-".join, digits)).decode().split())


_digits: Final[dict[int, list[str]]] = {8: []}  # those of spans
_traces: Final[list[str]] = []
_ids: Final[list[str]] = []
"""What nobody has had yet."""


def _forget() -> None:
    _ids.clear()
    _traces.clear()
    for drawn in _digits.values():
        drawn.clear()


os.register_at_fork(after_in_child=_forget)  # or two processes would draw the same


class UnseededRandom(Random):
    """Numbers that nobody can foretell, each drawn from `random_bytes`. It cannot be seeded."""

    def random(self) -> float:
        return self.getrandbits(_FRACTION_BITS) * 2.0**-_FRACTION_BITS

    def getrandbits(self, count: int, /) -> int:
        size = (count + 7) // 8
        return int.from_bytes(random_bytes(size)) >> (size * 8 - count)

    def seed(self, *args: object, **kwargs: object) -> None:
        """There is none."""
