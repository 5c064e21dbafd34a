"""The kill switch: while a file exists, nothing leaves the premises (BEHAVIOURS S5).

A file, since it works with every tool and over every crash, also of the gateway: `touch` it and the
next decision stays; it need not hold anything. What cannot be looked at is taken to be there.
"""

from __future__ import annotations

from pathlib import Path

from gateway.core.deadline import Clock

_POLL_S = 0.1


class SpillStop:
    """Looks at most ten times a second, so that a busy gateway does not live in stat(2)."""

    def __init__(self, file: Path | None, clock: Clock) -> None:
        self.file = file  # None: there is no switch
        self._clock = clock
        self._looked_s = float("-inf")
        self._there = False

    @property
    def on(self) -> bool:
        if self.file is None:
            return False
        now_s = self._clock()
        if now_s - self._looked_s >= _POLL_S:
            self._looked_s = now_s
            self._there = _exists(self.file)
        return self._there

    def turn(self, on: bool) -> None:
        """By hand, as `touch` and `rm` would. Raises OSError; then it is as it was."""
        if self.file is None:
            raise FileNotFoundError("routing.spill_stop_file names no file")
        if on:
            self.file.touch()
        else:
            self.file.unlink(missing_ok=True)
        self._looked_s = float("-inf")


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError:
        return True  # guard: S5.unreadable-file True -> False
    return True
