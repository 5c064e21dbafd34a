"""What a peer's frames may measure, by their kind, and what they may cost at once.

A frame is refused by its head, before any more of it is held. RFC 9113 fixes the size of some kinds
(section 6); for the others this gateway takes what calls need: SETTINGS have six parameters of the
RFC and a few of its extensions, a header block is bounded by the list that we advertise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.protocols.http2 import Code, Http2Error, frames

STREAM_WINDOW: Final = 4 << 20
CONNECTION_WINDOW: Final = 16 << 20
FRAME_BYTES: Final = 1 << 20
"""Of DATA: what we advertise as SETTINGS_MAX_FRAME_SIZE. No other kind needs as much."""
HEAD_LIST_BYTES: Final = 32 * 1024
"""What we advertise as SETTINGS_MAX_HEADER_LIST_SIZE."""
BLOCK_BYTES: Final = 64 * 1024
"""Of a compressed header block, in however many frames."""
BLOCK_FRAMES: Final = 16
SETTINGS_BYTES: Final = 6 * 64
SMALL_BYTES: Final = SETTINGS_BYTES
"""A frame up to this size is held whatever its kind is."""

STEPS_AT_ONCE: Final = 2048
"""Frames of data taken before the loop gets to serve others; each of about a microsecond or two."""
HEAD_STEPS: Final = 128
"""A header block counts as so many, since a call begins with it."""
CONTROL_STEPS: Final = 4
"""A frame that is answered counts as so many."""
STEP_OCTETS: Final = 8
"""So many octets of a header block count as one more."""

CONTROLS_PER_S: Final = 5_000  # frames that carry no call
CONTROLS_PER_FRAME: Final = 4  # of a call: windows grow with what is sent
MOST_IN_ADVANCE: Final = -CONTROLS_PER_S  # that frames of calls may bring

_EXACT: Final = frozenset(
    {frames.PRIORITY, frames.RST_STREAM, frames.PING, frames.WINDOW_UPDATE}
)  # far below SMALL_BYTES


def check_size(kind: int, size: int) -> None:
    """Of a frame of more than SMALL_BYTES. Raises Broken."""
    if kind == frames.DATA:
        if size > FRAME_BYTES:
            raise Http2Error(Code.FRAME_SIZE_ERROR, f"a frame of {size} bytes")
    elif kind in _EXACT:
        raise Http2Error(Code.FRAME_SIZE_ERROR, f"a frame of fixed size has {size} bytes")
    elif size > FRAME_BYTES:
        raise Http2Error(Code.FRAME_SIZE_ERROR, f"a frame of {size} bytes")
    elif kind == frames.SETTINGS:  # guard: A8.settings-count
        raise Http2Error(Code.ENHANCE_YOUR_CALM, "more SETTINGS than there are")
    elif size > BLOCK_BYTES:  # guard: A8.nondata-size
        raise Http2Error(Code.ENHANCE_YOUR_CALM, f"a frame without data has {size} bytes")


class FloodLimit:
    """What a peer may do so often within a second. `count` may be lowered by what pays for it."""

    __slots__ = ("_most", "_now_s", "_since_s", "_why", "count")

    def __init__(self, most_per_s: int, why: str, now_s: Callable[[], float]) -> None:
        self._most = most_per_s
        self._why = why
        self._now_s = now_s
        self._since_s = 0.0
        self.count = 0

    def add(self) -> None:
        """Raises Http2Error. So many are a flood unless they took a second: the clock is asked once
        for all."""
        self.count += 1
        if self.count > self._most:
            now_s = self._now_s()
            if now_s - self._since_s < 1:
                raise Http2Error(Code.ENHANCE_YOUR_CALM, self._why)
            self.count, self._since_s = 0, now_s
