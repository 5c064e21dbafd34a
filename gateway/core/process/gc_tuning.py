"""When Python looks for cycles of garbage in a process that serves.

What a call makes is freed as soon as nobody refers to it, and no call leaves cycles that have its
data, however it ended (`tests/unit/test_left_by_calls.py`). The collector looks all the same,
whenever 700 objects more were made than freed, and now and then at all that the process has, for
70 ms in which no call moves. Over 8,000 calls it looked 116, 10 and 1 times, which is 15 us a call;
by what is here once, which is 0.2 us.
"""

from __future__ import annotations

import gc

_YOUNG = 10_000  # objects made and not freed, before the youngest are looked at
_OLDER = 10  # of those looks, before older ones are looked at as well
SETTLED_S = 10.0
"""After the start: by then what loads beside the first calls is there too."""


def none_yet() -> None:
    """A process that starts makes what it keeps."""
    gc.disable()


def settled() -> None:
    """What is there by now stays, and is not looked at again."""
    gc.freeze()
    gc.set_threshold(_YOUNG, _OLDER, _OLDER)
    gc.enable()


def settled_anew() -> None:
    """Much of what was there is not used any more: looks at everything, once."""
    gc.unfreeze()
    gc.collect()
    settled()
