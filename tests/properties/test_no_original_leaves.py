"""Of whom one sentence names, nothing is in what leaves, wherever else the call tells of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from gateway.classify.pseudonyms.documents import strings
from gateway.classify.pseudonyms.ledger import SurrogateLedger
from gateway.classify.pseudonyms.masking import Masked, Masker
from gateway.classify.pseudonyms.pseudonymiser import Pseudonymiser
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.types import (
    Classification,
    DocumentCall,
    Finding,
    InferenceRequest,
    Sensitivity,
    Tightening,
    WireProtocol,
)
from tests.properties.named_calls import NAMES, NUMBERS, Told, calls, decoded, fold

pytestmark = pytest.mark.anyio

ID = "0a0b0c0d-0000-4000-8000-000000000001"


@dataclass
class OneFinder:
    """Sees one value as it is written, and nothing else of it."""

    type: str
    value: str

    async def find(self, text: str, added: Tightening, budget_s: float) -> list[Finding]:
        at = text.find(self.value)
        return [] if at < 0 else [Finding(self.type, at, at + len(self.value), 1.0)]


class AllClear:
    """So that nothing but the last guard stands in the way."""

    async def classify(self, request: InferenceRequest) -> Classification:
        return Classification(request.id, Sensitivity.CLEAR, "clear", complete=True)

    async def complete(
        self, request: InferenceRequest, classification: Classification
    ) -> Classification:
        return classification


class FindingsAlone(Masker):
    """Replaces what was found where it was found, and leaves the rest to the guard."""

    def mask(
        self, texts: Sequence[str], findings: Sequence[Sequence[Finding]], ledger: SurrogateLedger
    ) -> list[Masked]:
        self._draw(texts, findings, ledger)
        return [
            self._masked(text, found, ledger) for text, found in zip(texts, findings, strict=True)
        ]


@dataclass
class Seen:
    """What became of some calls."""

    left: int = 0
    doubts: Counter[str] = field(default_factory=Counter)
    kept: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)


async def sent(told: Told, masker: Masker, seen: Seen) -> None:
    request = InferenceRequest(
        id=ID,
        protocol=WireProtocol.OPENAI,
        tenant="t",
        model="m",
        payload=DocumentCall(CHAT, told.document),
        deadline=Deadline.after(60),
        pseudonymise=True,
    )
    verdict = Classification(ID, Sensitivity.RESTRICTED, "entities")
    maker = Pseudonymiser(
        OneFinder(told.type, told.value), AllClear(), lambda: 5.0,
        lambda why: seen.doubts.update([why]), Random(told.label), masker=masker,
    )  # fmt: skip
    instead = await maker.instead(request, verdict)
    if instead is None:
        seen.kept.append(told.label)
        return
    seen.left += 1
    assert isinstance(instead.request.payload, DocumentCall)
    said = [decoded(text) for _, text in strings(instead.request.payload.document)]
    words = [fold(word) for text in said for word in (text, *text.split())]
    if any(root in word for root in told.roots for word in _apart(said, words)):
        seen.leaks.append(told.label)


def _apart(texts: Sequence[str], words: Sequence[str]) -> set[str]:
    """Words by themselves, and letters that stand one by one: what two words make together by
    chance tells of nobody."""
    spaced = ("".join(w for w in text.split(" ") if len(w) == 1) for text in texts)
    single = {word for text in texts for word in map(fold, text.split())}
    numbers = {"".join(c for c in text if c.isdigit()) for text in texts}
    return single | set(spaced) | numbers | {w for w in words if w.isdigit()}


@pytest.fixture(scope="module")
def all_calls() -> list[Told]:
    return list(calls(Random(19)))


@pytest.mark.parametrize("seed", range(2))
async def test_nothing_of_an_original_leaves_and_most_calls_do(seed: int) -> None:
    seen, masker = Seen(), Masker()
    for told in calls(Random(seed)):
        await sent(told, masker, seen)
    assert seen.leaks == []
    assert set(seen.doubts) <= {"left_over", "no_surrogate"}
    hidden = ("spaced of", "base64 of", "full width of")
    visible = [label for label in seen.kept if not label.startswith(hidden)]
    assert len(visible) <= 0.03 * seen.left, visible


async def test_the_last_guard_alone_keeps_all_that_is_left_over(all_calls: list[Told]) -> None:
    seen, masker = Seen(), FindingsAlone()
    for told in all_calls:
        await sent(told, masker, seen)
    assert seen.leaks == []
    assert seen.doubts["left_over"] > 0.9 * len(all_calls)


ORDINARY = (
    "Several people will mark the rose in May, grant the channel an average umbrella and "
    "keep Britain's destination adorable; the market of 2024 had 4000 to 5,000 visitors.",
    "def render(marker, ella=3): return several[ella] + marker  # 1234567 of 7654321",
)


@pytest.mark.parametrize("text", ORDINARY)
async def test_ordinary_text_beside_a_name_stays_as_it_is(text: str) -> None:
    """There is no Vera in "several", no Rita in "Britain" and no Anne in "channel"."""

    for name in ("Vera Marten", "Rita Olsen", "Anne Keller", "Dora Umber", "Tina Berg"):
        document = {"model": "m", "messages": [{"role": "user", "content": f"{name}. {text}"}]}
        seen = Seen()
        told = Told(name, document, "PERSON", name, ())
        maker = Pseudonymiser(OneFinder("PERSON", name), AllClear(), lambda: 5.0, random=Random(1))
        request = InferenceRequest(
            id=ID, protocol=WireProtocol.OPENAI, tenant="t", model="m",
            payload=DocumentCall(CHAT, told.document), deadline=Deadline.after(60),
            pseudonymise=True,
        )  # fmt: skip
        verdict = Classification(ID, Sensitivity.RESTRICTED, "entities")
        instead = await maker.instead(request, verdict)
        assert instead is not None, (name, seen)
        assert isinstance(instead.request.payload, DocumentCall)
        content = instead.request.payload.document["messages"][0]["content"]
        assert content.partition(". ")[2] == text


def test_the_samples_are_of_all_kinds() -> None:
    assert len(NAMES) >= 20
    assert {kind for kind, *_ in NUMBERS.values()} >= {"CREDIT_CARD", "IBAN_CODE", "PHONE_NUMBER"}
