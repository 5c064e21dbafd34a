"""Masks in the place of what restricts in an answer, for callers that may not see it."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gateway.classify import NoScan
from gateway.classify.conversations.memory import BETWEEN
from gateway.classify.pseudonyms import SpanFinder
from gateway.classify.verdicts.answers import CLEAR_ANSWER, ENTITIES
from gateway.classify.verdicts.answers.verdicts import AnswerVerdicts, legible
from gateway.core.errors import AnswerWithheld
from gateway.core.types import InferenceRequest

_BLANK = "#"  # a mask for the second reading: any word may be a name behind "Mr"


class Mask(NamedTuple):
    """A span of a text that its caller may not see. Offsets are characters."""

    start: int
    end: int
    type: str

    @property
    def shown(self) -> str:
        """What stands in its place."""
        return f"[{self.type}]"


class AnswerMasks:
    def __init__(self, verdicts: AnswerVerdicts, finder: SpanFinder) -> None:
        self._verdicts, self._finder = verdicts, finder

    async def find(self, request: InferenceRequest, texts: Sequence[str]) -> list[list[Mask]]:
        """The masks of each text, in order and apart. Raises AnswerWithheld where the texts cannot
        be read, and where masks do not make them clear."""
        reason, _ = await self._verdicts.read(request, texts)
        if reason == CLEAR_ANSWER:
            return [[] for _ in texts]
        if reason != ENTITIES:  # guard: C20.unread-withheld
            raise withheld(reason)
        try:
            masks = await self._spans(request, list(map(legible, texts)))
        except NoScan as failure:
            raise withheld(failure.reason) from None
        rest = [masked(text, its, blank=True) for text, its in zip(texts, masks, strict=True)]
        reason, _ = await self._verdicts.read(request, rest)
        if reason != CLEAR_ANSWER:  # guard: C20.masked-clear
            raise withheld(ENTITIES)
        return masks

    async def _spans(self, request: InferenceRequest, texts: Sequence[str]) -> list[list[Mask]]:
        """A finding may begin in one text and end in another: each has its part of it."""
        lengths = (len(text) + len(BETWEEN) for text in texts)
        starts = list(itertools.accumulate(lengths, initial=0))[:-1]
        left_s = request.deadline.remaining_s()
        findings = await self._finder.find(BETWEEN.join(texts), request.tightening, left_s)
        spread: list[list[Mask]] = [[] for _ in texts]
        for finding in findings:
            at = bisect.bisect_right(starts, finding.start) - 1
            while at < len(texts) and starts[at] < finding.end:
                start, end = finding.start - starts[at], finding.end - starts[at]
                spread[at].append(Mask(max(0, start), min(end, len(texts[at])), finding.type))
                at += 1
        return [apart(masks) for masks in spread]


def apart(masks: Iterable[Mask]) -> list[Mask]:
    """In order; those that overlap are one, of the type of the first."""
    joined: list[Mask] = []
    for mask in sorted(masks):
        if joined and mask.start < joined[-1].end:
            joined[-1] = joined[-1]._replace(end=max(joined[-1].end, mask.end))
        elif mask.start < mask.end:
            joined.append(mask)
    return joined


def masked(text: str, masks: Iterable[Mask], blank: bool = False) -> str:
    """The text with the type of each mask in its place."""
    pieces, at = [], 0
    for mask in masks:
        pieces += [text[at : mask.start], _BLANK if blank else mask.shown]
        at = mask.end
    return "".join((*pieces, text[at:]))


def withheld(reason: str) -> AnswerWithheld:
    why = (
        "it holds data that this key may not see, and that cannot be masked in it"
        if reason == ENTITIES
        else f"this key may not see personal data, and it could not be read for such ({reason})"
    )
    return AnswerWithheld(f"the answer is withheld: {why}")
