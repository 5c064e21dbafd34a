"""The second look, at a call that would leave: what its tensors spell, names, the operator's
categories, and documents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.classify.text.documents.attachments import detach
from gateway.classify.text.extract import Unscannable, extract_texts
from gateway.classify.verdicts.documents import DocumentVerdicts
from gateway.classify.verdicts.names import NameVerdicts
from gateway.classify.verdicts.patterns import (
    CLEAR_VERDICT,
    NOTHING,
    PatternVerdicts,
    PendingScan,
    Verdict,
)
from gateway.classify.verdicts.policies import CallerPolicy
from gateway.classify.verdicts.spelled import SpelledTexts
from gateway.config.model_catalog import Catalog
from gateway.core.deadline import Clock
from gateway.core.types import InferenceRequest, TensorCall

if TYPE_CHECKING:
    from gateway.classify.verdicts.categories import CategoryVerdicts


class SecondPass:
    def __init__(
        self,
        catalog: Catalog,
        max_bytes: int,
        clock: Clock,
        patterns: PatternVerdicts,
        spelled: SpelledTexts,
        at_door: NameVerdicts | CategoryVerdicts | None,
        documents: DocumentVerdicts | None,
        *,
        numbers: bool,
    ) -> None:
        """`at_door`, `documents`: None where nothing is looked for, or none is read. `numbers`:
        whether numbers that tensors spell are looked for at the door, too."""
        self._catalog = catalog
        self._max_bytes = max_bytes
        self._clock = clock
        self._patterns = patterns
        self._spelled = spelled
        self._at_door = at_door
        self._numbers = numbers  # guard: C21.numbers -> self._numbers = False
        self._documents = documents

    async def verdict(
        self, request: InferenceRequest, policy: CallerPolicy, started_s: float
    ) -> Verdict:
        """Of a call whose texts the patterns have cleared. Raises NoScan."""
        if self._documents is None:
            return await self._rest(request, policy, started_s)
        payload, attachments = detach(request.payload)
        if attachments:
            request = replace(request, payload=payload)
        verdict = await self._rest(request, policy, started_s)
        if verdict[0] != "clear":
            return verdict

        async def judge(document: InferenceRequest) -> Verdict:
            return await self._document(document, policy)

        # guard: K4.documents -> return verdict
        return await self._documents.find(request, policy, attachments, judge)

    async def whole(
        self, request: InferenceRequest, policy: CallerPolicy, started_s: float
    ) -> Verdict:
        """Of a call by both looks. Raises NoScan."""
        payload = request.payload
        if self._documents is not None:
            payload, _ = detach(payload)
        verdict = await self._first(replace(request, payload=payload), policy, started_s)
        if verdict[0] != "clear":
            return verdict
        return await self.verdict(request, policy, started_s)

    async def _first(
        self, request: InferenceRequest, policy: CallerPolicy, started_s: float
    ) -> Verdict:
        try:
            model = self._catalog.find(request.model)
            texts = extract_texts(request.payload, model, self._max_bytes)
        except Unscannable as unread:
            return unread.reason, NOTHING
        return await self._on_texts(request, policy, texts, started_s)

    async def _document(self, request: InferenceRequest, policy: CallerPolicy) -> Verdict:
        """Of a call that says what a document does, by both looks."""
        started_s = self._clock()
        verdict = await self._first(request, policy, started_s)
        if verdict[0] != "clear":
            return verdict
        return await self._rest(request, policy, started_s)

    async def _rest(
        self, request: InferenceRequest, policy: CallerPolicy, started_s: float
    ) -> Verdict:
        payload = request.payload
        try:
            texts = extract_texts(payload, self._catalog.find(request.model), self._max_bytes)
            if isinstance(payload, TensorCall):
                spelled = await self._spelled.read(request, payload, started_s)
                reason, counts = await self._on_texts(request, policy, spelled, started_s)
                if reason != "clear":
                    return reason, counts
                read = set(texts)  # a text that stands twice in a call reads differently
                # Patterns have read those, and no name is one.
                texts += [
                    t
                    for t in spelled
                    if t not in read and (self._numbers or t.upper() != t.lower())
                ]
        except Unscannable as unread:
            return unread.reason, NOTHING
        if self._at_door is None or not policy.has_more:
            return CLEAR_VERDICT
        return await self._at_door.find(request, policy, texts, started_s)

    async def _on_texts(
        self, request: InferenceRequest, policy: CallerPolicy, texts: list[str], started_s: float
    ) -> Verdict:
        verdict = self._patterns.at_once(request, policy, texts)
        if isinstance(verdict, PendingScan):
            return await self._patterns.scan(verdict, request, policy, started_s)
        return verdict
