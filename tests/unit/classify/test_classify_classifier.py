"""The verdict: never an exception, clear only when a whole scan said so."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gateway.classify import ScanFailed, ScanLate, ScannersBusy, ScannerUnfit, canaries
from gateway.classify.classifier import Classifier
from gateway.classify.profile import PROFILES, Profile
from gateway.classify.scan_workers import frames
from gateway.classify.scan_workers.pool import ScanPool
from gateway.classify.scan_workers.spec import worker_spec
from gateway.classify.scanner import engine
from gateway.classify.scanner.recognizers import PresidioScanner
from gateway.classify.verdicts.readers import scan_pool
from gateway.config import ClassifySettings
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.types import DocumentCall, Finding, Sensitivity, Tensor, TensorCall
from tests.unit.classify import misbehaving_scanners

MARKER = misbehaving_scanners.MARKER


class Canned:
    """Answers, or raises, what it was made with."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.budgets_s: list[float] = []

    async def start(self) -> None: ...

    async def scan(self, texts: Sequence[str], budget_s: float) -> list[list[Finding]]:
        self.budgets_s.append(budget_s)
        if isinstance(self._answer, BaseException):
            raise self._answer
        answer: list[list[Finding]] = self._answer
        return answer

    async def aclose(self) -> None: ...


def say(text: str) -> dict[str, Any]:
    return {"model": "chat", "messages": [{"role": "user", "content": text}]}


def verdict(kit: Any, answer: Any, **config: Any) -> Any:
    classifier = kit.make_classifier(Canned(answer), ClassifySettings(**config))
    return asyncio.run(classifier.classify(kit.make_request(say("hello"))))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([[]], "clear"),
        ([[Finding("US_SSN", 0, 1, 0.5)]], "entities"),
        ([[Finding("US_SSN", 0, 1, 0.2)]], "clear"),
        ([[Finding("URL", 0, 1, 1.0), Finding("DATE_TIME", 0, 1, 1.0)]], "clear"),
        (ScanLate(), "late"),
        (ScanFailed(), "failed"),
        (ScannersBusy(), "busy"),
        (RuntimeError(MARKER), "failed"),
        ([], "failed"),
        ([[], []], "failed"),
        (None, "failed"),
        ([None], "failed"),
    ],
)
def test_only_a_whole_scan_without_restricting_findings_is_clear(
    answer: Any, reason: str, kit: Any
) -> None:
    found = verdict(kit, answer)
    assert found.reason == reason
    assert found.restricted == (reason != "clear")
    assert found.request_id == "r-1"


def test_cancellation_passes_through(kit: Any) -> None:
    with pytest.raises(asyncio.CancelledError):
        verdict(kit, asyncio.CancelledError())


def test_entities_are_counted_and_never_quoted(kit: Any) -> None:
    found = verdict(kit, [[Finding("US_SSN", 0, 4, 0.9), Finding("US_SSN", 5, 6, 0.9)]])
    assert dict(found.entities) == {"US_SSN": 2}


def test_the_budget_is_what_is_left_of_the_deadline_if_that_is_less(kit: Any) -> None:
    pool = Canned([[]])
    classifier = kit.make_classifier(pool)
    asyncio.run(classifier.classify(kit.make_request(say("hello"), budget_s=0.25)))
    asyncio.run(classifier.classify(kit.make_request(say("hello again"), budget_s=60.0)))
    assert pool.budgets_s[0] <= 0.25
    assert 0.25 < pool.budgets_s[1] <= 2.0


def test_a_call_kept_on_premises_is_classified_all_the_same(scanner: Any, kit: Any) -> None:
    import dataclasses

    from gateway.core.types import ONPREM_ONLY

    request = dataclasses.replace(kit.make_request(say("ssn 536-90-4399")), zones=ONPREM_ONLY)
    classifier = kit.make_classifier(kit.in_process(scanner))
    assert asyncio.run(classifier.classify(request)).entities == {"US_SSN": 1}


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_profiles_restrict_direct_identifiers_and_nothing_vague(name: Any) -> None:
    types = Profile.from_settings(ClassifySettings(profile=name)).types
    assert {"US_SSN", "CREDIT_CARD", "EMAIL_ADDRESS", "PHONE_NUMBER", "SECRET"} <= types
    assert ("PERSON" in types) == (name != "patterns")
    assert not {"URL", "DATE_TIME", "NRP", "LOCATION", "ORGANIZATION"} & types


def test_strict_restricts_at_least_what_balanced_does() -> None:
    assert PROFILES["balanced"] < PROFILES["strict"]


def test_lists_of_the_operator() -> None:
    config = ClassifySettings(deny_list=("Project Falcon",), allow_list=("a@known.example",))
    scanner = PresidioScanner(config)
    profile = Profile.from_settings(config)
    assert profile.restricts(scanner.scan("about Project Falcon, then"))
    assert not profile.restricts(scanner.scan("write to a@known.example please"))
    assert profile.restricts(scanner.scan("write to b@known.example please"))


def test_versions_name_what_decides(kit: Any) -> None:
    def version(**config: Any) -> str:
        classifier: Classifier = kit.make_classifier(Canned([[]]), ClassifySettings(**config))
        return classifier.version

    assert version() == version(workers=4, budget_ms=9)
    names = {version(**c) for c in ({}, {"profile": "strict"}, {"deny_list": ("Ann",)})}
    assert len(names) == 3
    assert not any("Ann" in name for name in names)


# Canaries (C8)


def test_the_real_workers_start_and_classify(kit: Any) -> None:
    """The whole path once: canaries, extraction, process, profile. The slow text must not stall."""

    async def scenario() -> list[str]:
        classifier = kit.make_classifier(scan_pool(ClassifySettings()))
        await classifier.start()
        try:
            texts = ["hello", "ssn 536-90-4399", "a." * 1000]
            return [(await classifier.classify(kit.make_request(say(t)))).reason for t in texts]
        finally:
            await classifier.aclose()

    hello, ssn, slow = asyncio.run(scenario())
    assert (hello, ssn) == ("clear", "entities")
    assert slow in ("clear", "late")


def test_a_scanner_that_misses_a_sample_stops_the_start() -> None:
    spec = frames.WorkerSpec(
        ClassifySettings(),
        canaries=(("US_SSN", "find it"), ("PHONE_NUMBER", "find it")),
        factory="tests.unit.classify.misbehaving_scanners:scripted",
    )
    with pytest.raises(ScannerUnfit, match="samples: PHONE_NUMBER"):
        asyncio.run(ScanPool(spec).start())


def test_a_scanner_that_finds_something_in_nothing_stops_the_start() -> None:
    spec = frames.WorkerSpec(
        ClassifySettings(),
        negatives=("find it",),
        factory="tests.unit.classify.misbehaving_scanners:scripted",
    )
    with pytest.raises(ScannerUnfit, match=r"US_SSN \(false alarm\)"):
        asyncio.run(ScanPool(spec).start())


def test_a_type_without_a_recognizer_stops_the_start() -> None:
    with pytest.raises(ScannerUnfit, match=r"MARTIAN_ID \(no recognizer\)"):
        asyncio.run(scan_pool(ClassifySettings(restrict=("US_SSN", "MARTIAN_ID"))).start())


def test_every_type_of_each_language_has_a_sample_and_it_is_found() -> None:
    config = ClassifySettings(languages=("en", "de", "es", "it", "pl"), profile="strict")
    scanner = PresidioScanner(config, Profile.from_settings(config).types)
    scanner.wait()  # or all patterns run on every text
    samples = canaries.positives(config)
    assert {type_ for type_, _ in samples} == scanner.supported()
    missed = [t for t, text in samples if t not in {f.type for f in scanner.scan(text)}]
    assert missed == []
    assert [t for t in canaries.NEGATIVES if scanner.scan(t)] == []


def test_a_sample_that_the_operator_allows_is_no_sample() -> None:
    allowed = ClassifySettings(allow_list=("4111 1111 1111 1111",))
    assert "CREDIT_CARD" not in {t for t, _ in canaries.positives(allowed)}


@pytest.mark.parametrize("value", ["allow", "cloud", "clear", "any", None])
def test_no_setting_lets_an_unread_call_out(value: Any) -> None:
    with pytest.raises(ValidationError):
        ClassifySettings(on_unknown=value)
    schema = ClassifySettings.model_json_schema()["properties"]["on_unknown"]
    assert schema["enum"] == ["onprem", "block"]


def test_samples_follow_the_settings() -> None:
    chosen = worker_spec(ClassifySettings(restrict=("US_SSN",), deny_list=("Falcon",)))
    assert {t for t, _ in chosen.canaries} == {"US_SSN", "DENY_LIST", "HIDDEN_TEXT"}


# No network, no content


def test_nothing_is_looked_up_on_the_network() -> None:
    """In a process of its own: an audit hook sees every socket, and cannot be taken off again.
    urllib3, which tldextract imports, binds one to the loopback to see whether there is IPv6."""
    code = """
import sys
seen = []
def note(event, args):
    ours = event == "socket.__new__" or (event == "socket.bind" and args[1] == ("::1", 0))
    if event.startswith("socket.") and not ours:
        seen.append(event)
sys.addaudithook(note)
from gateway.classify.scanner.recognizers import PresidioScanner
from gateway.config import ClassifySettings
found = PresidioScanner(ClassifySettings()).scan("mail jane.doe@gmail.com, see https://a.co.uk/x")
assert "EMAIL_ADDRESS" in {f.type for f in found}, found
assert not seen, seen
import tldextract
assert tldextract.extract("x.gmail.com").suffix == "com"
assert not seen, seen
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_the_pinned_suffix_list_has_no_address_to_ask() -> None:
    engine.pin_suffix_list()
    import tldextract

    assert tldextract.extract.suffix_list_urls == ()  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["raise", "die", "hang", "print", "beyond"])
def test_content_reaches_no_log(
    text: str, kit: Any, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario() -> Any:
        config = ClassifySettings(budget_ms=500)
        pool = ScanPool(
            frames.WorkerSpec(config, factory="tests.unit.classify.misbehaving_scanners:scripted")
        )
        classifier = kit.make_classifier(pool, config)
        await classifier.start()
        try:
            return await classifier.classify(
                kit.make_request({"prompt": f"{text} {MARKER}"}, operation=COMPLETIONS)
            )
        finally:
            await classifier.aclose()

    found = asyncio.run(scenario(), debug=True)
    written = caplog.text + "".join(capfd.readouterr()) + repr(found)
    assert MARKER not in written


def test_an_exception_that_quotes_content_reaches_no_log(
    kit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert verdict(kit, RuntimeError(MARKER)).reason == "failed"
    assert "RuntimeError" in caplog.text
    assert MARKER not in caplog.text


def test_presidio_itself_is_silent(scanner: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    scanner.scan("iban DE89 3704 0044 0532 0130 00, DE00 3704 0044 0532 0130 00 card 4111")
    assert caplog.text == ""


# Never raises

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)
_FIELDS = st.sampled_from(["messages", "input", "prompt", "tools", "content", "metadata", "x"])
_DOCUMENTS = st.dictionaries(_FIELDS, _JSON).map(lambda d: DocumentCall(CHAT, d))
_TENSORS = st.builds(
    Tensor,
    st.sampled_from(["TEXT", "X"]),
    st.sampled_from(["BYTES", "FP32"]),
    st.just((1,)),
    st.binary(max_size=40),
)
_CALLS = st.builds(TensorCall, st.lists(_TENSORS, max_size=3).map(tuple))


@settings(max_examples=50)
@given(payload=_DOCUMENTS | _CALLS, model=st.sampled_from(["chat", "text", "open", "stray", "no"]))
def test_classify_never_raises(payload: Any, model: str) -> None:
    from tests.unit.classify.conftest import InProcess, make_classifier, make_request

    class Short(InProcess):
        def __init__(self) -> None: ...

        async def scan(self, texts: Sequence[str], *_: object) -> list[list[Finding]]:
            return [[] for _ in texts]

    found = asyncio.run(make_classifier(Short()).classify(make_request(payload, model=model)))
    assert found.sensitivity in Sensitivity
    assert found.restricted == (found.reason != "clear")


@settings(max_examples=20)
@given(
    kind=st.sampled_from([ValueError, KeyError, OSError, RecursionError, MemoryError, TypeError])
)
def test_any_exception_is_a_restricted_call(kind: type[Exception]) -> None:
    from tests.unit.classify.conftest import Kit

    assert verdict(Kit, kind(MARKER)).restricted


@settings(max_examples=60)
@given(text=st.text(max_size=200))
def test_scanning_any_text_gives_findings_inside_it(text: str, scanner: PresidioScanner) -> None:
    for found in scanner.scan(text):
        assert 0 <= found.start <= found.end <= len(text)
        assert 0 <= found.score <= 1
