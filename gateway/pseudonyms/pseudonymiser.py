"""From a restricted call to one that may leave, or to nothing: any doubt keeps the call as it is.

What may leave is held against three guards before it gets a verdict of its own:

* nothing of an original is in it (`left_over`);
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from gateway import ambient, logs
from gateway.classify import NoScan
from gateway.deadline import Clock
from gateway.pseudonyms import Doubt, Finder, Verdicts
from gateway.pseudonyms.answers import RestoredFrames
from gateway.pseudonyms.documents import strings, with_values
from gateway.pseudonyms.ledger import PERSON, Ledger, compact
from gateway.pseudonyms.lists import PARTICLES
from gateway.pseudonyms.masking import Masked, Masker, Span, places
from gateway.pseudonyms.restoring import Restorer
from gateway.types import (
    Classification,
    DocumentCall,
    Finding,
    InferenceReply,
    InferenceRequest,
    Operation,
    Sensitivity,
)

log = logging.getLogger(__name__)

PSEUDONYMISED = "pseudonymised"  # the reason of a verdict that surrogates made clear
OPERATIONS = frozenset({Operation.CHAT, Operation.COMPLETIONS, Operation.RESPONSES})
"""Not embeddings: the vector of a surrogate is another, and nothing puts the original's back."""

_BETWEEN = "\n|\n"  # between the strings of a call, as the classifier reads them
_BLANK = "#"  # any word may be a name behind "Mr"
_TELLING = 5  # letters and digits; shorter values are looked for as words alone


@dataclass(frozen=True, slots=True)
class Instead:
    """The call that may leave in the place of another, and the way back."""

    request: InferenceRequest
    found: Classification
    restorer: Restorer = field(repr=False)

    async def to_leave(self) -> None:
        """Everything has been looked for."""

    def restored(self, reply: InferenceReply) -> InferenceReply:
        """The answer with the originals; whoever closes it makes the mapping forgotten."""
        operation = self.request.operation
        return replace(reply, frames=RestoredFrames(reply.frames, operation, self.restorer))

    def forget(self) -> None:
        """The call ended without an answer."""
        self.restorer.forget()


class Pseudonymiser:
    """Never raises but for cancellation."""

    def __init__(
        self,
        finder: Finder,
        verdicts: Verdicts,
        clock: Clock,
        doubted: Callable[[str], None] = lambda reason: None,
        random: Random | None = None,
        new_id: Callable[[], str] = ambient.new_id,
        masker: Masker | None = None,
    ) -> None:
        self._finder = finder
        self._verdicts = verdicts
        self._clock = clock
        self._doubted = doubted
        self._random = random or ambient.Lots()
        self._new_id = new_id
        self._masker = masker or Masker()

    async def instead(self, request: InferenceRequest, found: Classification) -> Instead | None:
        """What may leave in the place of the call, or None: it stays."""
        if not _eligible(request, found):
            return None
        ledger: Ledger | None = None
        try:
            call = request.payload
            assert isinstance(call, DocumentCall)
            listed = list(strings(call.document))
            ledger = Ledger((text for _, text in listed), self._random)
            return await self._made(request, call, found, listed, ledger)
        except Doubt as doubt:
            self._doubted(doubt.reason)
        except NoScan:
            self._doubted("no_scan")
        except Exception as failure:  # noqa: BLE001 - as in the classifier: whatever goes wrong, it stays
            told = logs.of(request.id, request.traceparent)
            log.error("pseudonymising failed: %s", type(failure).__name__, extra=told)
            self._doubted("failed")
        finally:
            if ledger is not None:
                ledger.forget()
        return None

    async def _made(
        self,
        request: InferenceRequest,
        call: DocumentCall,
        found: Classification,
        listed: Sequence[tuple[bool, str]],
        ledger: Ledger,
    ) -> Instead:
        started_s = self._clock()
        values = [text for is_value, text in listed if is_value]
        findings = await self._findings(request, listed)
        masked = await asyncio.to_thread(self._masker.mask, values, findings, ledger)
        restorer = Restorer(ledger.forms)
        if any(restorer.whole(m.text) != v for m, v in zip(masked, values, strict=True)):
            raise Doubt("not_reversible")
        texts = _in_place(listed, [m.text for m in masked])
        _refuse_left_over(texts, ledger)
        await self._refuse_unclean(request, texts, _in_order(listed, masked))
        document = with_values(call.document, [m.text for m in masked])
        blank = with_values(call.document, [m.blank(_BLANK) for m in masked])
        sent = replace(
            request,
            id=self._new_id(),
            payload=replace(call, document=document),
            pseudonymise=False,
        )
        verdict = await self._verdict(replace(sent, payload=replace(call, document=blank)))
        cleared = replace(
            verdict,
            reason=PSEUDONYMISED,
            entities=found.entities,
            pseudonymised=ledger.counts,
            classify_s=found.classify_s + max(0.0, self._clock() - started_s),
        )
        return Instead(sent, cleared, restorer)

    async def _findings(
        self, request: InferenceRequest, listed: Sequence[tuple[bool, str]]
    ) -> list[list[Finding]]:
        """Those of each value. Raises Doubt unless all of them, and some, are within one."""
        texts = [text for _, text in listed]
        joined, starts = _joined(texts)
        spread: list[list[Finding]] = [[] for _ in listed]
        for found in _exact(await self._found(request, joined), joined):
            at = bisect.bisect_right(starts, found.start) - 1
            here = replace(found, start=found.start - starts[at], end=found.end - starts[at])
            if not listed[at][0] or here.end > len(texts[at]):
                raise Doubt("elsewhere")
            spread[at].append(here)
        if not any(spread):
            raise Doubt("elsewhere")
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
        for found in await self._found(request, joined):
            if not _explained(found, joined, places):
                raise Doubt("not_clean")

    async def _found(self, request: InferenceRequest, joined: str) -> list[Finding]:
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
            raise Doubt("not_clean")
        return verdict


def _eligible(request: InferenceRequest, found: Classification) -> bool:
    """Allowed by key and model, and restricted for its findings alone: never for what could not be
    read, or not in time, or because somebody says so."""
    return (
        request.pseudonymise
        and found.restricted
        and found.reason == "entities"
        and found.request_id == request.id
        and not request.labelled
        and isinstance(request.payload, DocumentCall)
        and request.payload.operation in OPERATIONS
    )


def _joined(texts: Sequence[str]) -> tuple[str, list[int]]:
    """All texts as one, as the classifier reads them, since a label may be the key of its value;
    and where each begins."""
    lengths = (len(text) + len(_BETWEEN) for text in texts)
    return _BETWEEN.join(texts), list(itertools.accumulate(lengths, initial=0))


def _exact(findings: Sequence[Finding], text: str) -> list[Finding]:
    """Findings whose span is a value. One of a derived form goes without saying where it holds
    such a value; whether it held another one, the verdict on the new text tells."""
    exact = [f for f in findings if not Ledger.derived(f.type, text[f.start : f.end])]
    values = {text[f.start : f.end] for f in exact}
    for found in findings:
        part = text[found.start : found.end]
        if part not in values and not any(value in part for value in values):
            raise Doubt("no_surrogate")
    return exact


def _explained(found: Finding, text: str, places: Sequence[Span]) -> bool:
    """Whether a finding in the new text is a surrogate, or within one, or in a derived form of a
    part that holds surrogates and cuts none. What else that part holds, the verdict tells."""
    if any(start <= found.start and found.end <= end for start, end in places):
        return True
    touched = [p for p in places if found.start < p[1] and p[0] < found.end]
    if not touched or any(start < found.start or found.end < end for start, end in touched):
        return False
    if found.type == PERSON and _only_titles(found, text, touched):
        return True
    return Ledger.derived(found.type, text[found.start : found.end])


def _only_titles(found: Finding, text: str, touched: Sequence[Span]) -> bool:
    """Whether a name is a surrogate but for titles and particles, which may be found or not."""
    ends = [found.start, *(end for _, end in touched)]
    starts = [*(start for start, _ in touched), found.end]
    rest = " ".join(text[a:b] for a, b in zip(ends, starts, strict=True))
    return all(word.lower().strip(",") in PARTICLES for word in rest.split())


def _in_order(listed: Sequence[tuple[bool, str]], masked: Sequence[Masked]) -> list[Sequence[Span]]:
    """The places of surrogates, of keys too, which have none."""
    rest = iter(masked)
    return [next(rest).places if is_value else () for is_value, _ in listed]


def _in_place(listed: Sequence[tuple[bool, str]], values: Sequence[str]) -> list[str]:
    rest = iter(values)
    return [next(rest) if is_value else text for is_value, text in listed]


def _refuse_left_over(texts: Sequence[str], ledger: Ledger) -> None:
    """Raises Doubt if an original is still there: in a key, a number, over two strings, in other
    words, or where the finder did not see it."""
    lowered = [text.lower() for text in texts]
    solid = compact("".join(lowered))
    for original, type_ in ledger.originals.items():
        if type_ == PERSON:
            gone = not any(_words(texts, original))
        else:
            short = compact(original.lower())
            gone = (
                short not in solid
                if len(short) >= _TELLING
                else not any(_words(lowered, original.lower()))
            )
        if not gone:
            raise Doubt("left_over")


def _words(texts: Sequence[str], word: str) -> Iterator[Span]:
    return itertools.chain.from_iterable(places(text, word) for text in texts)
