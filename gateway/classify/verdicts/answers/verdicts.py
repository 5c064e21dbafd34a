"""What restricts in an answer: read like a call of the same caller, but never at the door."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gateway.classify import NoScan, ScanFailed
from gateway.classify.conversations.taint import Taint
from gateway.classify.text.extract import Unscannable, extract_texts
from gateway.classify.verdicts.answers import CLEAR_ANSWER, ENTITIES
from gateway.classify.verdicts.names import NameVerdicts
from gateway.classify.verdicts.patterns import NOTHING, PatternVerdicts, PendingScan, Verdict
from gateway.classify.verdicts.policies import CallerPolicies
from gateway.config.model_catalog import CatalogModel
from gateway.core.deadline import Clock
from gateway.core.operations.chat import CHAT
from gateway.core.process import logs
from gateway.core.types import DocumentCall, InferenceRequest

log = logging.getLogger(__name__)

UNREAD = "answer_unread"  # why a conversation stays whose answer could not be read
_MODEL = CatalogModel("answer", "generate", ())  # what an answer says is text, of any model
_HALF = re.compile("[\ud800-\udfff]")  # of a character, where a stream cuts it


class AnswerVerdicts:
    """Never raises but for cancellation: what cannot be read restricts."""

    def __init__(
        self,
        patterns: PatternVerdicts,
        names: NameVerdicts | None,
        policies: CallerPolicies,
        taint: Taint,
        max_bytes: int,
        clock: Clock,
    ) -> None:
        """`max_bytes`: of text that is read of an answer."""
        self.max_bytes = max_bytes
        self._patterns, self._names, self._policies = patterns, names, policies
        self._taint, self._clock = taint, clock

    async def read(self, request: InferenceRequest, texts: Sequence[str]) -> Verdict:
        """The reason and the counts by type of what restricts the caller of this request, up to the
        first finding: `clear`, `entities`, or why the texts could not be read."""
        if not texts:
            return CLEAR_ANSWER, NOTHING
        try:
            return await self._verdict(request, list(map(legible, texts)))
        except Unscannable as unread:
            return unread.reason, NOTHING
        except NoScan as failure:
            return failure.reason, NOTHING
        except Exception as failure:  # noqa: BLE001 - as in the classifier: what is not known restricts
            self._failed(request, failure)
            return ScanFailed.reason, NOTHING

    async def _verdict(self, request: InferenceRequest, texts: list[str]) -> Verdict:
        started_s, policy = self._clock(), self._policies.find(request.tightening)
        answer = replace(request, payload=DocumentCall(CHAT, {"content": texts}))
        read = extract_texts(answer.payload, _MODEL, self.max_bytes)
        verdict = self._patterns.at_once(answer, policy, read)
        if isinstance(verdict, PendingScan):
            verdict = await self._patterns.scan(verdict, answer, policy, started_s)
        if verdict[0] != CLEAR_ANSWER or self._names is None or not policy.has_names:
            return verdict
        reason, counts = await self._names.find(answer, policy, read, started_s)
        return reason, _added(verdict[1], counts)

    def restrict(self, request: InferenceRequest, reason: str) -> None:
        """The conversation that this call is of stays on the premises from now on."""
        # guard: C20.unread-restricts -> why = reason
        why = ENTITIES if reason == ENTITIES else UNREAD
        try:
            version = self._policies.find(request.tightening).version
            self._taint.mark(request, why, version)
        except Exception as failure:  # noqa: BLE001 - the next turn carries the answer, and is read
            self._failed(request, failure)

    def _failed(self, request: InferenceRequest, failure: Exception) -> None:
        fields = logs.call_fields(request.record_id, request.record_trace)
        log.error("reading an answer failed: %s", type(failure).__name__, extra=fields)


def legible(text: str) -> str:
    """As long as the text, with a sign in the place of halves of characters."""
    return text if text.isascii() else _HALF.sub("?", text)


def _added(some: Mapping[str, int], more: Mapping[str, int]) -> Mapping[str, int]:
    return {**some, **{kind: some.get(kind, 0) + count for kind, count in more.items()}}
