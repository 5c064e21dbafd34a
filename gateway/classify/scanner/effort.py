"""How much a verdict on one text may take, in steps that are counted, not timed.

A scan that is over its limit stops, and the text is restricted as `too_many`: it has more that
looks like personal data, or more forms to be read in, than a verdict is worth. The same text is
over it on any machine, busy or not. A step is about a microsecond (November 2026).
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator

from gateway.classify import TooMany

MOST = 60_000


class _EffortLocal(threading.local):
    left: float = math.inf


_running = _EffortLocal()


@contextlib.contextmanager
def limited(steps: float = MOST) -> Iterator[None]:
    """What goes on in here spends at most so much. Raises TooMany where it spends more, and again
    at the end, in case that was swallowed. Inside of another limit it counts for that one too."""
    outer, _running.left = _running.left, steps
    try:
        yield
        if _running.left < 0:
            raise TooMany
    finally:
        _running.left += outer - steps


def spend(steps: float) -> None:
    """Raises TooMany. Where there is no limit this does nothing."""
    _running.left -= steps
    if _running.left < 0:
        raise TooMany


def left() -> float:
    return _running.left
