"""One text of a stream that is held back until no finding can begin in what is let go of.

A finding may still begin in the last `HELD_CHARACTERS`. Where a text must not wait any longer, only
its last words are held that may be part of one: from the last word on that is all small letters,
everything behind it.
"""

from __future__ import annotations

import re

from gateway.classify.verdicts.answers.masks import Mask

HELD_CHARACTERS = 256  # names with their titles, addresses and spaced account numbers are shorter
_READ_EACH = 128  # characters that are new, before a text is read again
_BEFORE = 256  # characters read once more, which may announce a finding
_MOST = 4096  # characters that one finding may hold back
_WORD = re.compile(r"\S+")
_PARTICLES = frozenset(
    (  # noqa: SIM905 - as a list
        "al bin da das de del della den der di do dos du el la le los ten ter van vom von y zu zum "
        "zur dr mr mrs ms prof herr frau sr sra mme jr st"
    ).split()
)
"""Small words within names and addresses."""


class HeldText:
    """Offsets are characters of the whole text, of which only the end is held."""

    def __init__(self) -> None:
        self._text, self._base = "", 0  # what is held, and where it begins
        self._read = 0  # up to where it was read
        self._masks: list[Mask] = []
        self.free = 0  # up to where it may go
        self.over_from = 0  # the event of its stream from which on no more of it is expected

    @property
    def end(self) -> int:
        return self._base + len(self._text)

    @property
    def is_due(self) -> bool:
        """Whether enough has come to be read."""
        return self.end - max(self._read, self.free + HELD_CHARACTERS) >= _READ_EACH

    @property
    def is_held(self) -> bool:
        """Whether some of it waits."""
        return self.free < self.end

    def add(self, piece: str) -> tuple[int, int]:
        """Where the piece stands."""
        start = self.end
        self._text += piece
        return start, self.end

    def window(self) -> str:
        """What has to be read: what is held, and what stands before it. More of the text may come
        until `decide`."""
        self._read = self.end
        return self._text[self._window_start() - self._base :]

    def decide(self, masks: list[Mask], waited: bool, whole: bool) -> int:
        """Let go of what the masks of `window` allow; how many of them that are new. `waited`: the
        text was held for long enough; `whole`: no more comes of what was read."""
        by, end = self._window_start(), self._read  # guard: C20.read-text self._read -> self.end
        placed = [Mask(m.start + by, m.end + by, m.type) for m in masks]
        free = end if whole else self._free(end, waited)
        for mask in placed:
            if mask.start < free < mask.end:  # guard: C20.cut-finding
                free = mask.start
        if end - free > _MOST:
            free = end
        free = max(free, self.free)
        new = [
            mask._replace(start=max(mask.start, self.free), end=min(mask.end, free))
            for mask in placed
            if mask.start < free and mask.end > self.free
        ]
        self._masks += new
        self.free = free
        return len(new)

    def piece(self, start: int, end: int) -> str:
        """What goes in the place of a piece that is free. A mask stands where its finding begins;
        nothing stands for the rest of one that a piece before has begun."""
        made, at = [], start
        for mask in self._masks:
            if mask.end > start and mask.start < end:
                made.append(self._text[at - self._base : max(at, mask.start) - self._base])
                if mask.start >= start:
                    made.append(mask.shown)
                at = min(mask.end, end)
        return "".join((*made, self._text[at - self._base : end - self._base]))

    def forget(self) -> None:
        """What has gone, but for what is read once more."""
        keep = self.free - _BEFORE
        if keep - self._base > _MOST:
            self._text, self._base = self._text[keep - self._base :], keep
            self._masks = [mask for mask in self._masks if mask.end > keep]

    def _window_start(self) -> int:
        start = max(self._base, self.free - _BEFORE)
        if start > self._base:  # not in the middle of a word
            gap = re.search(r"\s", self._text[start - self._base : self.free - self._base])
            start += 0 if gap is None else gap.end()
        return start

    def _free(self, end: int, waited: bool) -> int:
        """Up to where no finding begins that is not there already."""
        # guard: C20.held-characters -> free = end
        free = end - HELD_CHARACTERS
        if waited:
            free = max(free, self._base + _settled(self._text[: end - self._base]))
        return free


def _settled(text: str) -> int:
    """Behind the last word that is whole and cannot be of a finding that goes on."""
    for word in reversed(list(_WORD.finditer(text, max(0, len(text) - HELD_CHARACTERS)))):
        plain = word[0].rstrip(".,;:!?")
        is_plain = plain.isalpha() and plain.islower() and plain not in _PARTICLES
        # guard: C20.held-words always
        if is_plain and word.end() < len(text):
            return word.end()
    return 0
