"""Classes between clear and restricted (M7): what is found and said puts a call in them, and all of
it is found before the call is admitted anywhere."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.classify import Restricting, ScanFailed
from gateway.classify.classifier import Classifier
from gateway.classify.conversations.taint import OwnMarks
from gateway.classify.profile import ALWAYS, Profile
from gateway.classify.verdicts.hooks import HookAnswer
from gateway.classify.verdicts.hooks.classifier import HookedClassifier
from gateway.config import ClassifySettings, MemorySettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.config.sections.classify import HookSettings
from gateway.config.zones import named
from gateway.config.zones.admission import DataClasses
from gateway.config.zones.sections import ALWAYS_RESTRICTED
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.types import (
    CLOUD,
    Classification,
    DocumentCall,
    Finding,
    InferenceRequest,
    Sensitivity,
    WireProtocol,
    Zone,
)

EU, US = named("eu"), named("us")
CLASSES = DataClasses(
    clear=frozenset({CLOUD, EU, US}),
    admitted={
        "internal": frozenset({EU, US}),
        "personal": frozenset({EU}),
        "sealed": frozenset(),
    },
    by_type={
        "EMAIL_ADDRESS": frozenset({"personal"}),
        "PHONE_NUMBER": frozenset({"internal"}),
        "IBAN_CODE": frozenset({"personal", "sealed"}),
    },
)


class Words:
    """Finds entity types that stand in a text by their names; the first alone, as a scan that stops
    there may."""

    def __init__(self) -> None:
        self.fails_after = 1 << 30
        self.blind: set[str] = set()

    async def start(self) -> None: ...
    async def aclose(self) -> None: ...

    async def scan(
        self, texts: Sequence[str], budget_s: float, restricts: Restricting | None = None
    ) -> list[list[Finding]]:
        self.fails_after -= 1
        if self.fails_after < 0:
            raise ScanFailed("the scanner is broken")
        types = None if restricts is None else restricts[0]
        found = []
        for text in texts:
            some = [
                Finding(match[0], match.start(), match.end(), 1.0)
                for match in re.finditer("[A-Z]+(?:_[A-Z]+)+", text)
                if (types is None or match[0] in types) and match[0] not in self.blind
            ]
            found.append(some[:1])
        return found


class Reading:
    def __init__(self, classes: DataClasses = CLASSES, marks: OwnMarks | None = None) -> None:
        self.words = Words()
        settings = ClassifySettings(memory=MemorySettings(verdicts=0), names={"engine": "off"})
        catalog = Catalog(
            {
                "chat": CatalogModel("chat", "generate", ("gpu",)),
                "public": CatalogModel("public", "generate", ("gpu",), public=True),
            }
        )
        self.classifier = Classifier(
            settings, catalog, self.words, time.monotonic, classes=classes, marks=marks
        )

    def first(self, *texts: str, **changes: Any) -> Classification:
        self.request = request(*texts, **changes)
        return asyncio.run(self.classifier.classify(self.request))

    def whole(self, *texts: str, **changes: Any) -> Classification:
        first = self.first(*texts, **changes)
        return asyncio.run(self.classifier.complete(self.request, first))


def request(*texts: str, **changes: Any) -> InferenceRequest:
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]
    call = InferenceRequest(
        "r-1", WireProtocol.OPENAI, "t", changes.pop("model", "chat"),
        DocumentCall(CHAT, {"messages": messages}), Deadline.after(60.0),
    )  # fmt: skip
    return replace(call, **changes)


def admitted(found: Classification) -> set[str]:
    return {zone.name for zone in found.admitted}


@pytest.mark.parametrize(
    ("text", "data_class", "zones"),
    [
        ("nothing in it", "", {"cloud", "eu", "us"}),
        ("one EMAIL_ADDRESS", "personal", {"eu"}),
        ("one PHONE_NUMBER", "internal", {"eu", "us"}),
        ("a PHONE_NUMBER and an EMAIL_ADDRESS", "internal+personal", {"eu"}),
        ("an EMAIL_ADDRESS and a PHONE_NUMBER", "internal+personal", {"eu"}),
        ("one US_SSN", "", set()),
        ("an EMAIL_ADDRESS and a US_SSN", "", set()),
        ("a US_SSN and an EMAIL_ADDRESS", "", set()),
        ("an IBAN_CODE", "personal+sealed", set()),
        ("an EMAIL_ADDRESS and an IBAN_CODE", "personal+sealed", set()),
        ("an EMAIL_ADDRESS, a PHONE_NUMBER and a US_SSN", "", set()),
    ],
)
def test_all_that_is_in_a_call_decides_where_it_is_admitted(
    text: str, data_class: str, zones: set[str]
) -> None:
    found = Reading().whole(text)
    assert (found.data_class, admitted(found)) == (data_class, zones)
    assert found.restricted is (text != "nothing in it")
    assert found.stays is (not zones)


def test_a_first_finding_admits_nowhere_before_the_call_is_read_on() -> None:
    found = Reading().first("one EMAIL_ADDRESS")
    assert found.sensitivity is Sensitivity.RESTRICTED
    assert not found.complete


def test_what_is_read_on_never_admits_more() -> None:
    reading = Reading()
    first = reading.first("one PHONE_NUMBER")
    narrower = replace(first, admitted=frozenset({US}))
    found = asyncio.run(reading.classifier.complete(reading.request, narrower))
    assert admitted(found) == {"us"}


def test_a_call_whose_rest_cannot_be_read_stays() -> None:
    reading = Reading()
    reading.words.fails_after = 1
    found = reading.whole("one EMAIL_ADDRESS")
    assert (found.stays, found.reason) == (True, "failed")


@pytest.mark.parametrize(
    ("labels", "zones"),
    [({"personal"}, {"eu"}), ({"internal"}, {"eu", "us"}), ({"internal", "personal"}, {"eu"}),
     ({"sealed"}, set()), ({"unheard"}, set())],
)  # fmt: skip
@pytest.mark.parametrize("model", ["chat", "public"])
def test_a_label_puts_a_call_in_its_class(labels: set[str], zones: set[str], model: str) -> None:
    found = Reading().whole("nothing in it", labels=frozenset(labels), model=model)
    assert admitted(found) == zones
    assert found.restricted
    assert found.complete or not zones


def test_a_label_and_a_finding_are_two_classes() -> None:
    found = Reading().whole("one PHONE_NUMBER", labels=frozenset({"personal"}))
    assert (found.data_class, admitted(found)) == ("internal+personal", {"eu"})


def test_a_label_frees_nothing() -> None:
    assert Reading().whole("one US_SSN", labels=frozenset({"internal"})).stays
    assert Reading().whole("", labels=frozenset({"internal"}), labelled=True).stays
    reading = Reading()
    reading.words.fails_after = 0
    assert reading.first("x", labels=frozenset({"internal"})).stays


class BrokenMarks(OwnMarks):
    """Fails from the second question on."""

    asked_before = False

    def holds_any(self, tenant: str) -> bool:
        if self.asked_before:
            raise OSError("the memory that workers share is gone")
        self.asked_before = True
        return False


@pytest.mark.parametrize("text", ["nothing in it", "one EMAIL_ADDRESS"])
def test_a_call_whose_conversation_cannot_be_asked_about_stays(text: str) -> None:
    reading = Reading(marks=BrokenMarks(8, 60.0, time.monotonic, b"k" * 32))
    found = reading.first(text)
    assert found.stays
    assert found.reason in ("failed", "entities")


def test_a_conversation_keeps_its_class() -> None:
    reading = Reading()
    reading.whole("hello", labels=frozenset({"personal"}))
    found = reading.whole("hello", "yes?", "go on")
    assert (found.data_class, admitted(found)) == ("personal", {"eu"})
    assert admitted(reading.whole("hello again")) == {"cloud", "eu", "us"}


def test_a_conversation_that_was_restricted_stays_so_whatever_class_it_had() -> None:
    reading = Reading()
    reading.whole("hello", labels=frozenset({"personal"}))
    reading.whole("hello", "yes?", "a US_SSN")
    reading.words.blind = {"US_SSN"}
    found = reading.whole("hello", "yes?", "a US_SSN", "and?", "go on")
    assert (found.stays, found.reason) == (True, "tainted")


def test_a_conversation_of_a_class_that_is_gone_stays() -> None:
    reading = Reading()
    reading.whole("hello", labels=frozenset({"personal"}))
    after = reading.classifier.for_catalog(
        reading.classifier._catalog, replace(CLASSES, admitted={"internal": frozenset({EU, US})})
    )
    call = request("hello", "yes?", "go on")
    assert asyncio.run(after.classify(call)).reason == "tainted"


def test_what_left_with_surrogates_leaves_with_none_for_no_class() -> None:
    """Its earlier turn was restricted, and what that held may not be found once more."""
    reading = Reading()
    assert reading.whole("a US_SSN", pseudonymise=True).stays
    reading.words.blind = {"US_SSN"}
    found = reading.whole("a US_SSN", "yes?", "an EMAIL_ADDRESS", pseudonymise=True)
    assert (found.stays, found.reason) == (True, "entities")


def test_a_label_of_a_class_that_the_settings_do_not_have_keeps_the_call() -> None:
    """Such as that of a key that was issued for other settings."""
    assert Reading(DataClasses()).whole("nothing", labels=frozenset({"personal"})).stays


class AlwaysRestricts(HookedClassifier):
    """Whose hook restricts every call."""

    async def _answer(self, *_: object) -> HookAnswer:
        return HookAnswer.RESTRICT


def test_a_hook_that_restricts_takes_a_call_out_of_its_class() -> None:
    reading = Reading()
    hooks = {"h": HookSettings.model_validate({"kind": "guardrail", "url": "http://127.0.0.1:9"})}
    hooked = AlwaysRestricts(
        reading.classifier, hooks, Catalog({}), 1000, lambda hook, answer: None
    )
    found = asyncio.run(hooked.classify(request("one EMAIL_ADDRESS")))
    assert (found.stays, found.reason, found.data_class) == (True, "hook:h", "")
    again = reading.whole("one EMAIL_ADDRESS", "yes?", "go on")
    assert again.reason == "tainted"


def test_without_classes_nothing_is_between() -> None:
    reading = Reading(DataClasses())
    assert reading.whole("an EMAIL_ADDRESS").admitted == frozenset()
    assert reading.whole("nothing").admitted == frozenset({CLOUD})


@pytest.mark.parametrize("data_class", ["", "personal"])
def test_a_restricted_verdict_without_a_class_admits_nowhere(data_class: str) -> None:
    everywhere: frozenset[Zone] = frozenset({CLOUD, EU, US})
    found = Classification(
        "r-1", Sensitivity.RESTRICTED, "entities", data_class=data_class, admitted=everywhere
    )
    assert found.admitted == (everywhere if data_class else frozenset())
    assert replace(found, data_class="").stays
    cleared = Classification("r-1", Sensitivity.CLEAR, "clear", admitted=everywhere)
    assert replace(cleared, sensitivity=Sensitivity.RESTRICTED).stays


def test_the_types_of_a_class_restrict() -> None:
    settings = ClassifySettings.model_validate(
        {"classes": {"internal": {"entities": ["URL"], "admits": {}}}}
    )
    assert "URL" in Profile.from_settings(settings).types
    assert "URL" not in Profile.from_settings(ClassifySettings()).types


def test_what_always_restricts_is_in_no_class() -> None:
    assert ALWAYS_RESTRICTED == ALWAYS
