"""From a restricted call to one that may leave, or to nothing: any doubt keeps the call as it is.

What may leave is held against three guards before it gets a verdict of its own:

* nothing of an original is in it (`left_over`): the type `ScrubbedRequest` looks for it, and what
  leaves is one;
* all that the finder finds in it lies within the surrogates that were put there (`not_clean`);
* with a sign in the place of every surrogate, the classifier of all calls finds it clear
  (`not_clean`).

The new call has an id of its own, so its verdict cannot clear the call that it was made from.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from gateway.classify import NoScan
from gateway.classify.conversations.memory import BETWEEN
from gateway.classify.pseudonyms import PseudonymDoubt, SpanFinder, Verdicts
from gateway.classify.pseudonyms.answers.frames import RestoredFrames, restored_body
from gateway.classify.pseudonyms.answers.restorer import Restorer
from gateway.classify.pseudonyms.documents import changed, strings, with_values
from gateway.classify.pseudonyms.guarding import ScrubbedRequest
from gateway.classify.pseudonyms.ledger import SurrogateLedger
from gateway.classify.pseudonyms.masking import Masked, Masker, Span
from gateway.classify.pseudonyms.remnants import PERSON, Remnants
from gateway.classify.pseudonyms.values.lists import PARTICLES
from gateway.classify.pseudonyms.values.spelling import legible
from gateway.core import ambient
from gateway.core.deadline import Clock
from gateway.core.process import logs
from gateway.core.reply import (
    InferenceReply,
    JsonBody,
    OneFrame,
)
from gateway.core.types import (
    Classification,
    DocumentCall,
    Finding,
    InferenceRequest,
    JsonDocument,
    Sensitivity,
    Zone,
)

log = logging.getLogger(__name__)

PSEUDONYMISED = "pseudonymised"  # the reason of a verdict that surrogates made clear
_BLANK = "#"  # any word may be a name behind "Mr"
_ESCAPED = frozenset("bfnrt")  # behind a backslash
_ENCODED = re.compile(
    r"(?:%[0-9A-Fa-f]{2})+|&#?\w{2,8};?|</?[A-Za-z][^<>\n]{0,80}>|\\+(?:u[0-9A-Fa-f]{4})?"
    r"|[\u00ad\u2010-\u2015\u200b-\u200f\u2060\uff01-\uff5e]|[*`_]+"
)
_FILLER = " |"  # nothing to decode, and no separator twice in a row


@dataclass(frozen=True, slots=True)
class PseudonymisedCall:
    """The call that may leave in the place of another, and the way back."""

    scrubbed: ScrubbedRequest
    classification: Classification
    restorer: Restorer = field(repr=False)
    unrestored: Callable[[int], None] = field(default=lambda count: None, repr=False)

    @property
    def request(self) -> InferenceRequest:
        return self.scrubbed.request

    async def to_leave(self, zone: Zone) -> None:
        """Everything has been looked for."""

    def restored(self, reply: InferenceReply) -> InferenceReply:
        """A stream with the originals; whoever closes it makes the mapping forgotten."""
        operation = self.request.operation
        frames = RestoredFrames(reply.frames, operation, self.restorer, self.unrestored)
        return replace(reply, frames=frames)

    async def restored_whole(self, frames: OneFrame) -> tuple[OneFrame, int]:
        """An answer that is there already, whose headers can say what is left in it: in how many
        places. Forgets the mapping."""
        frame = frames.peek()
        assert isinstance(frame, JsonBody)
        body = JsonBody(await restored_body(frame.body, self.restorer))
        count = self.restorer.unrestored
        self.restorer.forget()
        if count:
            self.unrestored(count)
        return OneFrame(body, frames.total_tokens, frames.usage), count

    def forget(self) -> None:
        """The call ended without an answer."""
        self.restorer.forget()


class Pseudonymiser:
    """Never raises but for cancellation."""

    def __init__(
        self,
        finder: SpanFinder,
        verdicts: Verdicts,
        clock: Clock,
        doubted: Callable[[str], None] = lambda reason: None,
        random: Random | None = None,
        new_id: Callable[[], str] = ambient.new_id,
        masker: Masker | None = None,
        unrestored: Callable[[int], None] = lambda count: None,
    ) -> None:
        """`doubted` is called with the reason for each call that stays, `unrestored` with the
        number of places where something of a surrogate is left in an answer."""
        self._finder = finder
        self._verdicts = verdicts
        self._clock = clock
        self._doubted = doubted
        self._random = random or ambient.UnseededRandom()
        self._new_id = new_id
        self._masker = masker or Masker()
        self._unrestored = unrestored

    async def instead(
        self, request: InferenceRequest, classification: Classification
    ) -> PseudonymisedCall | None:
        """What may leave in the place of the call, or None: it stays."""
        if not _eligible(request, classification):
            return None
        ledger: SurrogateLedger | None = None
        try:
            call = request.payload
            assert isinstance(call, DocumentCall)
            call = replace(call, document=changed(call.document, legible))
            listed = _listed(call.document, request.model)
            ledger = SurrogateLedger((text for _, text in listed), self._random)
            return await self._made(request, call, classification, listed, ledger)
        except PseudonymDoubt as doubt:
            self._doubted(doubt.reason)
        except NoScan:
            self._doubted("no_scan")
        except Exception as failure:  # noqa: BLE001 - as in the classifier: whatever goes wrong, it stays
            fields = logs.call_fields(request.record_id, request.record_trace)
            log.error("pseudonymising failed: %s", type(failure).__name__, extra=fields)
            self._doubted("failed")
        finally:
            if ledger is not None:
                ledger.forget()
        return None

    async def _made(
        self,
        request: InferenceRequest,
        call: DocumentCall,
        classification: Classification,
        listed: Sequence[tuple[bool, str]],
        ledger: SurrogateLedger,
    ) -> PseudonymisedCall:
        started_s = self._clock()
        values = [text for is_value, text in listed if is_value]
        findings = await self._findings(request, listed)
        masked = await asyncio.to_thread(self._masker.mask, values, findings, ledger)
        restorer = Restorer(ledger.forms)
        if not await asyncio.to_thread(_is_reversible, masked, values, restorer):
            raise PseudonymDoubt("not_reversible")
        document = _with_values(call.document, request.model, [m.text for m in masked])
        blanks = [m.blank(_BLANK) for m in masked]
        blank = _with_values(call.document, request.model, blanks)
        sent = replace(
            request,
            id=self._new_id(),
            payload=replace(call, document=document),
            pseudonymise=False,
            surrogates=True,
        )
        scrubbed = await asyncio.to_thread(ScrubbedRequest, sent, ledger)
        texts = _in_place(listed, [m.text for m in masked])
        await self._refuse_unclean(request, texts, _in_order(listed, masked))
        verdict = await self._verdict(replace(sent, payload=replace(call, document=blank)))
        cleared = replace(
            verdict,
            reason=PSEUDONYMISED,
            entities=classification.entities,
            pseudonymised=ledger.counts,
            classify_s=classification.classify_s + max(0.0, self._clock() - started_s),
        )
        return PseudonymisedCall(scrubbed, cleared, restorer, self._unrestored)

    async def _findings(
        self, request: InferenceRequest, listed: Sequence[tuple[bool, str]]
    ) -> list[list[Finding]]:
        """Those of each value. Raises Doubt unless all of them, and some, are within one."""
        texts = [text for _, text in listed]
        joined, starts = _joined(texts)
        spread: list[list[Finding]] = [[] for _ in listed]
        findings = await self._scan(request, joined)
        if _hides_values(findings, joined):  # a finding in decoded text stands for those beside it
            findings = [*findings, *await self._scan(request, _ENCODED.sub(_blanked, joined))]
        for finding in _exact(findings, joined):
            at = bisect.bisect_right(starts, finding.start) - 1
            local = replace(finding, start=finding.start - starts[at], end=finding.end - starts[at])
            local = _behind_escape(local, texts[at])
            if not listed[at][0] or local.end > len(texts[at]):
                raise PseudonymDoubt("elsewhere")
            spread[at].append(local)
        if not any(spread):
            raise PseudonymDoubt("elsewhere")
        return [one for one, (is_value, _) in zip(spread, listed, strict=True) if is_value]

    async def _refuse_unclean(
        self, request: InferenceRequest, texts: Sequence[str], ours: Sequence[Sequence[Span]]
    ) -> None:
        joined, starts = _joined(texts)
        places = [
            (by + start, by + end)
            for by, spans in zip(starts, ours, strict=False)
            for start, end in spans
        ]
        for finding in await self._scan(request, joined):
            if not _explained(_behind_escape(finding, joined), joined, places):
                raise PseudonymDoubt("not_clean")

    async def _scan(self, request: InferenceRequest, joined: str) -> list[Finding]:
        return await self._finder.find(joined, request.tightening, request.deadline.remaining_s())

    async def _verdict(self, request: InferenceRequest) -> Classification:
        verdict = await self._verdicts.classify(request)
        if not verdict.restricted and not verdict.complete:
            verdict = await self._verdicts.complete(request, verdict)
        if (
            verdict.sensitivity is not Sensitivity.CLEAR
            or not verdict.complete
            or verdict.request_id != request.id
        ):
            raise PseudonymDoubt("not_clean")
        return verdict


def _is_reversible(masked: Sequence[Masked], values: Sequence[str], restorer: Restorer) -> bool:
    back = (restorer.whole(m.text) for m in masked)
    same = all(text == value for text, value in zip(back, values, strict=True))
    restorer.unrestored = 0  # of the call, not of its answer
    return same


def _eligible(request: InferenceRequest, classification: Classification) -> bool:
    """Allowed by key and model, and restricted for its findings alone: never for what could not be
    read, or not in time, or because somebody says so."""
    return (
        request.pseudonymise
        and classification.restricted
        and classification.reason == "entities"
        and classification.request_id == request.id
        and not request.labelled
        and not request.labels
        and isinstance(request.payload, DocumentCall)
        and request.payload.operation.pseudonymised
    )


def _listed(document: JsonDocument, model: str) -> list[tuple[bool, str]]:
    """Every string of the call; the name of the model is none of its values."""
    if document.get("model") != model:
        return list(strings(document))
    rest = {key: value for key, value in document.items() if key != "model"}
    return [(False, model), *strings(rest)]


def _with_values(document: JsonDocument, model: str, values: list[str]) -> JsonDocument:
    if document.get("model") != model:
        return with_values(document, values)
    rest = with_values({k: v for k, v in document.items() if k != "model"}, values)
    return {key: model if key == "model" else rest[key] for key in document}


def _joined(texts: Sequence[str]) -> tuple[str, list[int]]:
    """All texts as one, as the classifier reads them, since a label may be the key of its value;
    and where each begins."""
    lengths = (len(text) + len(BETWEEN) for text in texts)
    return BETWEEN.join(texts), list(itertools.accumulate(lengths, initial=0))


def _hides_values(findings: Sequence[Finding], text: str) -> bool:
    values = {text[f.start : f.end] for f in findings if not _is_derived(f, text)}
    parts = (text[f.start : f.end] for f in findings if _is_derived(f, text))
    return any(not any(value in part for value in values) for part in parts)


def _is_derived(finding: Finding, text: str) -> bool:
    return SurrogateLedger.derived(finding.type, text[finding.start : finding.end])


def _blanked(encoded: re.Match[str]) -> str:
    length = len(encoded[0])
    return (_FILLER * length)[:length]


def _behind_escape(finding: Finding, text: str) -> Finding:
    """The name in `\\nMaria`, as JSON within a string has it: without the letter of the escape."""
    start = finding.start
    if start and text[start - 1 : start] == "\\" and text[start : start + 1] in _ESCAPED:
        return replace(finding, start=start + 1)
    return finding


def _exact(findings: Sequence[Finding], text: str) -> list[Finding]:
    """Findings whose span is a value. One of a derived form goes without saying where it holds
    something of such a value; whether it held another one, the verdict on the new text tells."""
    exact = [f for f in findings if not _is_derived(f, text)]
    values = {text[f.start : f.end]: f.type for f in exact}
    remnants: Remnants | None = None
    for finding in findings:
        part = text[finding.start : finding.end]
        if part in values or any(value in part for value in values):
            continue
        if _ENCODED.fullmatch(part):
            continue  # a part of a sign
        remnants = remnants or Remnants(values)
        if not remnants.find(part):
            raise PseudonymDoubt("no_surrogate")
    return exact


def _explained(finding: Finding, text: str, places: Sequence[Span]) -> bool:
    """Whether a finding in the new text is a surrogate, or within one, or in a derived form of a
    part that holds surrogates and cuts none. What else that part holds, the verdict tells."""
    if any(start <= finding.start and finding.end <= end for start, end in places):
        return True
    touched = [p for p in places if finding.start < p[1] and p[0] < finding.end]
    if not touched or any(start < finding.start or finding.end < end for start, end in touched):
        return False
    if finding.type == PERSON and _only_titles(finding, text, touched):
        return True
    return SurrogateLedger.derived(finding.type, text[finding.start : finding.end])


def _only_titles(finding: Finding, text: str, touched: Sequence[Span]) -> bool:
    """Whether a name is a surrogate but for titles and particles, which may be found or not."""
    ends = [finding.start, *(end for _, end in touched)]
    starts = [*(start for start, _ in touched), finding.end]
    rest = " ".join(text[a:b] for a, b in zip(ends, starts, strict=True))
    words = (word.strip(".,") for word in rest.split())
    return all(len(word) < 2 or word.lower() in PARTICLES for word in words)  # or an initial


def _in_order(listed: Sequence[tuple[bool, str]], masked: Sequence[Masked]) -> list[Sequence[Span]]:
    """The places of surrogates, of keys too, which have none."""
    rest = iter(masked)
    return [next(rest).places if is_value else () for is_value, _ in listed]


def _in_place(listed: Sequence[tuple[bool, str]], values: Sequence[str]) -> list[str]:
    rest = iter(values)
    return [next(rest) if is_value else text for is_value, text in listed]
