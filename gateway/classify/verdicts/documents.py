"""Whether the documents that a call carries restrict it.

Each is judged by itself, as a call with nothing but its text. What is known of one is known by a
keyed digest of it, for its tenant and policy; a document that was not read in time, or at all, is
read again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Protocol

from gateway.classify.conversations.shelves import Shelves
from gateway.classify.text.documents import Unread
from gateway.classify.text.documents.attachments import Attachment
from gateway.classify.verdicts.patterns import CLEAR_VERDICT, Verdict
from gateway.classify.verdicts.policies import CallerPolicy
from gateway.config.sections.classify import MemorySettings
from gateway.core.deadline import Clock
from gateway.core.types import DocumentCall, InferenceRequest

DOCUMENT_S = 20.0
"""For all documents of a call, if half of what the call has left is for its answer."""
_AT_ONCE = 64 * 1024  # characters that are digested on the loop

Judge = Callable[[InferenceRequest], Awaitable[Verdict]]


class ReadsDocuments(Protocol):
    """Where documents are read. `read` gives the texts of one, or raises Unread or NoScan."""

    async def start(self) -> None: ...
    async def read(self, attachment: Attachment, budget_s: float) -> list[str]: ...
    async def aclose(self) -> None: ...


class DocumentVerdicts:
    def __init__(
        self, reader: ReadsDocuments, memory: MemorySettings, clock: Clock, key: bytes
    ) -> None:
        self._reader = reader
        self._clock = clock
        self._key = key
        self._known: Shelves[Verdict] = Shelves(memory.verdicts, memory.verdict_s, clock)

    async def find(
        self,
        request: InferenceRequest,
        policy: CallerPolicy,
        attachments: Sequence[Attachment],
        judge: Judge,
    ) -> Verdict:
        """Of all of them, up to the first that restricts. Raises NoScan."""
        ends_s = self._clock() + min(DOCUMENT_S, request.deadline.remaining_s() / 2)
        for attachment in attachments:
            verdict = await self._verdict(request, policy, attachment, ends_s, judge)
            if verdict[0] != "clear":
                return verdict
        return CLEAR_VERDICT

    async def _verdict(
        self,
        request: InferenceRequest,
        policy: CallerPolicy,
        attachment: Attachment,
        ends_s: float,
        judge: Judge,
    ) -> Verdict:
        if len(attachment.base64) <= _AT_ONCE:
            digest = self._digest(policy, attachment)
        else:
            digest = await asyncio.to_thread(self._digest, policy, attachment)
        known = self._known.get(request.tenant, digest)
        if known is not None:
            return known
        try:
            texts = await self._reader.read(attachment, ends_s - self._clock())
        except Unread as unread:
            verdict: Verdict = (unread.reason, {})
        else:
            verdict = await judge(_text_call(request, texts))
        self._known.put(request.tenant, digest, verdict)
        return verdict

    def _digest(self, policy: CallerPolicy, attachment: Attachment) -> bytes:
        keyed = hashlib.blake2b(key=self._key, digest_size=16)
        # guard: K4.digest-policy policy.version -> ""
        parts = (policy.version, attachment.media_type, attachment.filename, attachment.base64)
        for part in parts:
            octets = part.encode("utf-8", "surrogatepass")
            keyed.update(len(octets).to_bytes(8, "big"))
            keyed.update(octets)
        return keyed.digest()


def _text_call(request: InferenceRequest, texts: Sequence[str]) -> InferenceRequest:
    """A call that says what a document does."""
    assert isinstance(request.payload, DocumentCall)
    document = {"documents": list(texts)}
    payload = replace(request.payload, document=document, size=0, files=())
    return replace(request, payload=payload)
