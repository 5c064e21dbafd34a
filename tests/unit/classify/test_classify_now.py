"""The verdict that needs no waiting: what it says, and that it is the one of the long way."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.classify import Restricting
from gateway.classify.classifier import Classifier
from gateway.classify.gate.armed import ArmedGate
from gateway.classify.gate.database import PatternDatabase, Signs
from gateway.classify.gate.evidence import Evidence
from gateway.classify.gate.gate import Gate
from gateway.classify.names import Enough
from gateway.classify.patterns.store import BlobStore
from gateway.classify.scanner.recognizers import PresidioScanner
from gateway.classify.verdicts import patterns as module
from gateway.config import ClassifySettings, MemorySettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.types import Classification, Finding, InferenceRequest, Tightening

PROSE = "The gardener waters the tulips before noon and reads a book about rivers. "
SIGN = "See icon@2x.png, which fires the gate and restricts nothing. "


class Worker:
    """The scan of a worker without the process around it."""

    def __init__(self, scanner: PresidioScanner) -> None:
        self._scanner = scanner
        self.needs = scanner.needs().packed()
        self.asked: list[str] = []

    async def start(self) -> None: ...
    async def aclose(self) -> None: ...

    async def scan(
        self, texts: Sequence[str], budget_s: float, restricts: Restricting | None = None
    ) -> list[list[Finding]]:
        self.asked += texts
        return [self._scanner.scan(text) for text in texts]


class WatchedGate(ArmedGate):
    """Keeps in which texts its first database was searched."""

    def __init__(self) -> None:
        super().__init__(BlobStore.for_user())
        self.asked: list[bytes] = []

    def _use(self, gate: Gate, canaries: Sequence[tuple[str, str]]) -> None:
        super()._use(gate, canaries)
        ascii, beyond = self._watched(gate.compiled.ascii), self._watched(gate.compiled.beyond)
        self.gate = Gate(dataclasses.replace(gate.compiled, ascii=ascii, beyond=beyond))

    def _watched(self, signs: Signs) -> Signs:
        first, *others = signs.plain
        watched = PatternDatabase(first.compiled, first.stops)

        def search(encoded: bytes, *how: Any) -> None:
            self.asked.append(encoded)
            first.search(encoded, *how)

        watched.search = search
        return dataclasses.replace(signs, plain=(watched, *others))


class NoNames:
    """Has looked, and there are none."""

    async def start(self) -> None: ...
    async def aclose(self) -> None: ...

    async def find(
        self,
        texts: Sequence[str],
        budget_s: float,
        lone: Sequence[bool] | None = None,
        enough: Enough | None = None,
    ) -> list[list[Finding]]:
        return [[] for _ in texts]


class Rig:
    def __init__(
        self, scanner: PresidioScanner, search: NoNames | None = None, **config: Any
    ) -> None:
        self.worker, self.gate = Worker(scanner), WatchedGate()
        catalog = Catalog(
            models={
                "chat": CatalogModel("chat", "generate", ("gpu",)),
                "poems": CatalogModel("poems", "generate", ("gpu",), public=True),
                "stray": CatalogModel("stray", "infer", ("gpu",), declared=False),
            }
        )
        self.now_s = 0.0
        self.classifier = Classifier(
            ClassifySettings(names=config.pop("names", {"engine": "off"}), **config),
            catalog, self.worker, lambda: self.now_s, self.gate, names=search,
        )  # fmt: skip

        async def start() -> None:
            await self.classifier.start()
            await self.gate.built()

        asyncio.run(start())
        assert self.gate.armed
        self.gate.asked.clear()

    def now(self, request: InferenceRequest) -> Classification | None:
        return self.classifier.classify_now(request)

    def classify(self, request: InferenceRequest) -> Classification:
        return asyncio.run(self.classifier.classify(request))


@pytest.fixture
def rig(scanner: PresidioScanner) -> Rig:
    return Rig(scanner)


def said(*texts: str, **fields: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    turns = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    return {"model": "chat", "messages": turns, **fields}


def test_the_usual_call_is_clear_at_once(rig: Rig, kit: Any) -> None:
    found = rig.now(kit.make_request(said(PROSE * 30)))
    assert found is not None
    assert (found.reason, found.restricted, found.complete) == ("clear", False, True)
    assert rig.worker.asked == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("card 4111 1111 1111 1111", "CREDIT_CARD"),
        ("mail anna@kern.example.org", "EMAIL_ADDRESS"),
        ("ssn 536-90-4399", "US_SSN"),
        ("to DE89 3704 0044 0532 0130 00", "IBAN_CODE"),
    ],
)
def test_a_value_that_proves_itself_restricts_at_once(
    text: str, kind: str, rig: Rig, kit: Any
) -> None:
    found = rig.now(kit.make_request(said(PROSE * 30 + text)))
    assert found is not None
    assert (found.reason, dict(found.entities)) == ("entities", {kind: 1})
    assert rig.worker.asked == []


def test_the_same_proof_counts_for_the_models_of_other_settings(rig: Rig, kit: Any) -> None:
    """Every gateway classifies with one that was made of another, which alone is started."""
    models = Catalog(models={"chat": CatalogModel("chat", "generate", ("gpu",))})
    made = rig.classifier.for_catalog(models)
    found = made.classify_now(kit.make_request(said("card 4111 1111 1111 1111")))
    assert found is not None
    assert dict(found.entities) == {"CREDIT_CARD": 1}
    assert rig.worker.asked == []


def test_and_taints_what_follows_it(rig: Rig, kit: Any) -> None:
    rig.now(kit.make_request(said("card 4111 1111 1111 1111")))
    found = rig.now(kit.make_request(said("card 4111 1111 1111 1111", "Fine.", "And now?")))
    assert found is not None
    assert found.reason == "tainted"


def test_what_the_gate_does_not_clear_and_nothing_proves_takes_a_scan(rig: Rig, kit: Any) -> None:
    """And nothing of it is done twice."""
    request = kit.make_request(said(SIGN))
    assert rig.now(request) is None
    assert rig.classify(request).reason == "clear"
    assert len(rig.gate.asked) == 1
    assert len(rig.worker.asked) == 1


def test_a_look_that_was_begun_is_not_another_call_s(rig: Rig, kit: Any) -> None:
    begun, other = kit.make_request(said(SIGN)), kit.make_request(said("ask for +49 30 901820"))
    assert rig.now(begun) is None
    assert rig.classify(other).reason == "entities"
    assert rig.now(begun) is None
    assert rig.now(other) is not None
    assert rig.classify(begun).reason == "clear"


def test_text_that_would_hold_up_the_loop_goes_to_a_worker(
    scanner: PresidioScanner, kit: Any
) -> None:
    rig = Rig(scanner, max_scan_bytes=1 << 20)
    assert rig.now(kit.make_request(said("word " * (module._GATE_MOST // 5 + 1)))) is None
    assert rig.gate.asked == []


def test_names_in_every_call_take_the_long_way(scanner: PresidioScanner, kit: Any) -> None:
    """After the same gate, which is not asked again."""
    rig = Rig(scanner, names={"when": "always"}, search=NoNames())
    request = kit.make_request(said(PROSE))
    assert rig.now(request) is None
    found = rig.classify(request)
    assert (found.reason, found.complete) == ("clear", True)
    assert len(rig.gate.asked) == 1


def test_an_error_restricts(
    rig: Rig, kit: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("MARKER")

    monkeypatch.setattr(Evidence, "likely", fails)
    with caplog.at_level(logging.ERROR):
        found = rig.now(kit.make_request(said(PROSE)))
    assert found is not None
    assert (found.restricted, found.reason) == (True, "failed")
    assert "MARKER" not in caplog.text


# Beginnings


def turns(count: int) -> list[str]:
    return [f"{PROSE * 9}{'another'[: n % 7 + 1]} {chr(97 + n)}" for n in range(count)]


def test_a_later_turn_is_all_that_the_gate_is_asked_about(rig: Rig, kit: Any) -> None:
    for end in range(1, 21, 2):
        assert rig.now(kit.make_request(said(*turns(end)))) is not None
    assert all(len(text) < 6000 for text in rig.gate.asked)
    assert len(rig.gate.asked) == 10


def test_nothing_of_it_is_remembered_where_settings_say_so(
    scanner: PresidioScanner, kit: Any
) -> None:
    rig = Rig(scanner, memory=MemorySettings(verdicts=0))
    for _ in range(2):
        rig.now(kit.make_request(said(*turns(19))))
    assert len(set(rig.gate.asked)) == 1


def test_a_beginning_is_its_tenant_s_and_its_policy_s(rig: Rig, kit: Any) -> None:
    request = kit.make_request(said(*turns(19)))
    for other in (
        request,
        dataclasses.replace(request, tenant="another"),
        dataclasses.replace(request, tightening=Tightening(types=frozenset({"URL"}))),
    ):
        rig.now(other)
    assert len({len(text) for text in rig.gate.asked}) == 1


def test_a_beginning_is_forgotten_in_time(rig: Rig, kit: Any) -> None:
    for rig.now_s in (0.0, 3601.0):
        rig.now(kit.make_request(said(*turns(19))))
    assert rig.gate.asked[0] == rig.gate.asked[1]


@pytest.mark.parametrize("at", [0, 3, 9, 18])
def test_a_beginning_that_was_changed_is_another(at: int, rig: Rig, kit: Any) -> None:
    told = turns(19)
    rig.now(kit.make_request(said(*told)))
    value = " card 4111 1111 1111 1111"  # in as many characters
    told[at] = told[at][: -len(value)] + value
    found = rig.now(kit.make_request(said(*told, "Fine.", "And now?")))
    assert found is not None
    assert found.reason == "entities"


def test_a_value_across_the_end_of_a_beginning_is_found(rig: Rig, kit: Any) -> None:
    """The words that give a number its meaning stand before it, in what was cleared."""
    told = [*turns(9)[:-1], f"{PROSE * 30} my passport number is"]
    assert rig.now(kit.make_request(said(*told))) is not None
    found = rig.classify(kit.make_request(said(*told, "C01X00T47", "And now?")))
    assert found.reason == "entities"
    fresh = Rig(rig.worker._scanner).classify(kit.make_request(said(*told, "C01X00T47", "And?")))
    assert fresh.reason == "entities"


def test_what_a_scan_cleared_need_not_be_asked_again(rig: Rig, kit: Any) -> None:
    told = [SIGN, *turns(12)]
    request = kit.make_request(said(*told))
    assert rig.now(request) is None
    assert rig.classify(request).reason == "clear"
    assert rig.now(kit.make_request(said(*told, "Fine.", "And now?"))) is not None


def test_a_beginning_that_restricts_is_not_kept(rig: Rig, kit: Any) -> None:
    told = [*turns(9), "call +49 30 901820 about it"]
    request = dataclasses.replace(kit.make_request(said(*told, PROSE * 30)), explained=True)
    assert rig.classify(request).reason == "entities"
    later = kit.make_request(said(*told, PROSE * 30, "And now?"))
    assert rig.classify(dataclasses.replace(later, explained=True)).reason == "entities"


# The same verdicts, in the order of a conversation or out of it


PIECES = st.sampled_from(
    (
        *(PROSE, PROSE * 12, PROSE * 40, SIGN, "4111 1111 1111 1111", "passport number", "and"),
        *("C01X00T47", "mail anna@kern.example.org", "+49 30 901820", "ssn", "536-90-4399"),
    )
)


@settings(max_examples=25)
@given(st.lists(st.lists(PIECES, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=9))
def test_a_remembered_verdict_is_the_one_without_memory(
    scanner: PresidioScanner, kit: Any, texts: list[str]
) -> None:
    kept, fresh = _rigs(scanner)
    for end in range(1, len(texts) + 1):
        request = dataclasses.replace(kit.make_request(said(*texts[:end])), explained=True)
        assert kept.classify(request).restricted == fresh.classify(request).restricted


_made: list[Rig] = []


def _rigs(scanner: PresidioScanner) -> list[Rig]:
    if not _made:
        _made.extend((Rig(scanner), Rig(scanner, memory=MemorySettings(verdicts=0))))
    return _made


# A public model (its calls are not read)


def test_a_public_model_s_call_is_clear_and_not_read(rig: Rig, kit: Any) -> None:
    found = rig.now(kit.make_request(said("card 4111 1111 1111 1111"), model="poems"))
    assert found is not None
    assert (found.reason, found.restricted, found.complete) == ("public_model", False, True)
    assert (rig.gate.asked, rig.worker.asked) == ([], [])


def test_a_label_a_taint_and_a_tightening_win_over_it(rig: Rig, kit: Any) -> None:
    asked = kit.make_request(said("card 4111 1111 1111 1111"), model="poems")
    labelled = rig.now(dataclasses.replace(asked, labelled=True))
    assert labelled is not None
    assert labelled.reason == "labelled"
    tightened = rig.now(dataclasses.replace(asked, tightening=Tightening("strict")))
    assert tightened is not None
    assert tightened.reason == "entities"
    goes_on = kit.make_request(said("card 4111 1111 1111 1111", "Fine.", "And now?"), model="poems")
    tainted = rig.now(goes_on)
    assert tainted is not None
    assert tainted.reason == "tainted"


def test_what_came_before_keeps_it_also_when_its_names_have_been_looked_for(
    scanner: PresidioScanner, kit: Any
) -> None:
    """A call that may leave with surrogates, and in which there is nothing to replace."""
    rig = Rig(scanner, NoNames())
    noted = {"metadata": {"note": "card 4111 1111 1111 1111"}}
    first = dataclasses.replace(kit.make_request(said("Who is it?", **noted)), pseudonymise=True)
    assert rig.classify(first).reason == "entities"
    later = said("Who is it?", "A patient.", "Since when?")
    second = dataclasses.replace(kit.make_request(later), pseudonymise=True)
    found = rig.classify(second)
    assert (found.reason, found.complete) == ("clear", False)
    door = asyncio.run(rig.classifier.complete(second, found))
    assert (door.reason, door.restricted) == ("tainted", True)


def test_an_undeclared_model_is_never_public(rig: Rig, kit: Any) -> None:
    found = rig.now(kit.make_request(said("hello"), model="stray"))
    assert found is not None
    assert found.reason == "undeclared_model"
