"""C10, C11, M5: what the classifier does with labels, with what it remembers, and with what a key
adds."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.classify import Restricting, ScanFailed, ScanLate, ScannersBusy, canaries
from gateway.classify.classifier import Classifier
from gateway.classify.conversations.taint import Taint
from gateway.classify.profile import Profile
from gateway.classify.scan_workers import worker
from gateway.classify.scan_workers.spec import worker_spec
from gateway.classify.scanner.recognizers import FirstVerdict, PresidioScanner
from gateway.classify.verdicts.policies import CallerPolicies
from gateway.config import ClassifySettings, MemorySettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.types import (
    NOT_TIGHTENED,
    Classification,
    DocumentCall,
    Finding,
    InferenceRequest,
    Tensor,
    TensorCall,
    Tightening,
)

LONG = "The gardener waters the tulips before noon and reads a book about rivers. " * 4
SSN = "her number is 536-90-4399"


class Pool:
    """Finds US_SSN and URL by a word that stands for each; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.trouble: Exception | None = None

    async def start(self) -> None: ...
    async def aclose(self) -> None: ...

    async def scan(
        self, texts: Sequence[str], budget_s: float, restricts: Restricting | None = None
    ) -> list[list[Finding]]:
        self.asked += texts
        if self.trouble is not None:
            raise self.trouble
        return [self._found(text) for text in texts]

    def _found(self, text: str) -> list[Finding]:
        signs = {"536-90-4399": ("US_SSN", 0.8), "www.": ("URL", 0.8), "weak": ("IBAN_CODE", 0.2)}
        return [
            Finding(kind, text.index(sign), text.index(sign) + len(sign), score)
            for sign, (kind, score) in signs.items()
            if sign in text
        ]


@pytest.fixture
def pool() -> Pool:
    return Pool()


@pytest.fixture
def classifier(pool: Pool, kit: Any) -> Classifier:
    made: Classifier = kit.make_classifier(pool)
    return made


def said(*texts: str) -> dict[str, Any]:
    roles = ("user", "assistant")
    turns = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    return {"model": "chat", "messages": turns}


def classify(classifier: Classifier, request: InferenceRequest) -> Classification:
    return asyncio.run(classifier.classify(request))


# Explained calls (O3)


@pytest.mark.parametrize("explained", [True, False])
def test_only_a_call_that_is_served_taints_its_next_turn(
    explained: bool, classifier: Classifier, kit: Any
) -> None:
    asked = dataclasses.replace(kit.make_request(said(SSN)), explained=explained)
    assert classify(classifier, asked).reason == "entities"
    turns = said(SSN, "Fine.", "And the weather?")
    assert (classifier.taint.source(kit.make_request(turns)) is None) == explained


def test_an_explained_call_is_as_tainted_as_the_call_would_be(
    classifier: Classifier, kit: Any
) -> None:
    classify(classifier, kit.make_request(said(SSN)))
    call = kit.make_request(said(SSN, "Fine.", "And the weather?"))
    assert classify(classifier, dataclasses.replace(call, explained=True)).reason == "tainted"


# Segments


def test_a_later_turn_is_all_that_is_scanned(classifier: Classifier, pool: Pool, kit: Any) -> None:
    turns = [f"{LONG}{n}" for n in range(20)]
    for end in range(1, 21, 2):
        assert classify(classifier, kit.make_request(said(*turns[:end]))).reason == "clear"
    assert len(pool.asked) == 10
    assert all(len(text) < 4 * len(LONG) for text in pool.asked)


def test_what_is_new_is_found_behind_what_is_known(
    classifier: Classifier, pool: Pool, kit: Any
) -> None:
    classify(classifier, kit.make_request(said(LONG)))
    found = classify(classifier, kit.make_request(said(LONG, "Fine.", SSN)))
    assert found.reason == "entities"
    assert dict(found.entities) == {"US_SSN": 1}


def test_a_restricted_text_is_known_again(classifier: Classifier, pool: Pool, kit: Any) -> None:
    for _ in range(2):
        found = classify(classifier, kit.make_request(said(SSN)))
        assert found.reason == "entities"
        assert dict(found.entities) == {"US_SSN": 1}
    assert len(pool.asked) == 1


@pytest.mark.parametrize("trouble", [ScanLate(), ScanFailed(), ScannersBusy(), RuntimeError()])
def test_what_could_not_be_read_is_scanned_again(
    trouble: Exception, classifier: Classifier, pool: Pool, kit: Any
) -> None:
    pool.trouble = trouble
    assert classify(classifier, kit.make_request(said(LONG))).restricted
    pool.trouble = None
    assert classify(classifier, kit.make_request(said(LONG))).reason == "clear"
    assert len(pool.asked) == 2


def test_another_tenant_s_verdicts_do_not_count(
    classifier: Classifier, pool: Pool, kit: Any
) -> None:
    request = kit.make_request(said(LONG))
    classify(classifier, request)
    classify(classifier, dataclasses.replace(request, tenant="another"))
    assert len(pool.asked) == 2


def test_verdicts_are_of_the_policy_that_the_settings_make() -> None:
    """A reload makes a classifier of other settings. Its policy is in every digest."""

    def version(settings: ClassifySettings, added: Tightening) -> str:
        return CallerPolicies(settings, (), has_names=True).find(added).version

    policies = {
        version(settings, added)
        for settings in (ClassifySettings(), ClassifySettings(deny_list=("Falcon",)))
        for added in (Tightening(), Tightening("strict"), Tightening(threshold=0.1))
    }
    assert len(policies) == 6
    idle = ClassifySettings(memory=MemorySettings(verdicts=5, taints=5), workers=3)
    assert version(idle, Tightening()) in policies


def test_memory_of_verdicts_can_be_turned_off(pool: Pool, kit: Any) -> None:
    settings = ClassifySettings(memory=MemorySettings(verdicts=0))
    classifier = kit.make_classifier(pool, settings)
    for _ in range(2):
        classify(classifier, kit.make_request(said(LONG)))
    assert len(pool.asked) == 2


def test_context_words_of_a_known_text_still_count(scanner: PresidioScanner, kit: Any) -> None:
    """The real scanner: alone the number is none, behind the words of the turn before it is."""
    classifier = kit.make_classifier(kit.in_process(scanner))
    question = f"{LONG} And his passport"
    number = "912803456, I think."
    assert classify(classifier, kit.make_request(said(question))).reason == "clear"
    alone = {"model": "chat", "messages": [{"role": "assistant", "content": number}]}
    assert classify(classifier, kit.make_request(alone)).reason == "clear"
    both = classify(classifier, kit.make_request(said(question, number)))
    assert both.reason == "entities"


# Labels and taint


def test_a_labelled_call_is_restricted_and_not_scanned(
    classifier: Classifier, pool: Pool, kit: Any
) -> None:
    labelled = dataclasses.replace(kit.make_request(said(LONG)), labelled=True)
    found = classify(classifier, labelled)
    assert (found.reason, found.restricted) == ("labelled", True)
    assert pool.asked == []
    assert classify(classifier, kit.make_request(said(LONG))).reason == "clear"
    assert classify(classifier, kit.make_request(said(LONG, "Yes.", "Go on."))).reason == "tainted"


@pytest.mark.parametrize("document", [{}, {"model": "chat"}, {"messages": []}, {"input": ""}])
def test_a_labelled_call_without_text_is_restricted(
    document: dict[str, Any], classifier: Classifier, kit: Any
) -> None:
    labelled = dataclasses.replace(kit.make_request(document), labelled=True)
    assert classify(classifier, labelled).reason == "labelled"


def test_a_conversation_that_was_restricted_stays_so_without_its_reason(
    classifier: Classifier, pool: Pool, kit: Any
) -> None:
    first = {**said("Who is this?"), "metadata": {"note": SSN}}
    assert classify(classifier, kit.make_request(first)).reason == "entities"
    later = said("Who is this?", "A patient.", "Which ward?")
    found = classify(classifier, kit.make_request(later))
    assert (found.reason, found.restricted) == ("tainted", True)
    other = dataclasses.replace(kit.make_request(later), tenant="another")
    assert classify(classifier, other).reason == "clear"
    assert classify(classifier, kit.make_request(said("Who is this?"))).reason == "clear"


def test_what_stays_is_passed_on_from_turn_to_turn(pool: Pool, kit: Any) -> None:
    now_s = [0.0]
    models = {"chat": CatalogModel("chat", "generate", ("gpu",))}
    classifier = Classifier(
        ClassifySettings(memory=MemorySettings(taint_s=100)),
        Catalog(models=models), pool, lambda: now_s[-1],
    )  # fmt: skip
    turns = [SSN, "Noted."]
    classify(classifier, kit.make_request(said(*turns[:1])))
    pool.asked.clear()
    for _ in range(5):
        now_s.append(now_s[-1] + 80.0)
        turns += ["And then?", "Nothing."]
        found = classify(classifier, kit.make_request(said(*turns[:-1])))
        assert found.reason == "tainted"
    assert pool.asked == []


def numbers(sequence: int, model: str = "open", text: bytes | None = None) -> InferenceRequest:
    from tests.unit.classify.conftest import make_request

    data = b"\0" * 4 if text is None else len(text).to_bytes(4, "little") + text
    tensor = Tensor("TEXT" if text else "X", "BYTES" if text else "INT32", (1,), data)
    return make_request(TensorCall((tensor,), parameters={"sequence_id": sequence}), model=model)


def test_the_rest_of_a_restricted_sequence_is_restricted(
    classifier: Classifier, pool: Pool
) -> None:
    assert classify(classifier, numbers(1)).reason == "clear"
    assert classify(classifier, numbers(1, text=SSN.encode())).reason == "entities"
    assert classify(classifier, numbers(1)).reason == "tainted"
    assert classify(classifier, numbers(2)).reason == "clear"


def test_a_step_that_was_not_read_in_time_restricts_the_rest_too(
    classifier: Classifier, pool: Pool
) -> None:
    pool.trouble = ScanLate()
    assert classify(classifier, numbers(1, text=b"hello")).reason == "late"
    pool.trouble = None
    assert classify(classifier, numbers(1)).reason == "tainted"


class Unavailable:
    """Marks that cannot be asked for."""

    key = b"k" * 32

    def holds_any(self, tenant: str) -> bool:
        raise OSError("unavailable")

    def get(self, tenant: str, digest: bytes) -> int:
        raise OSError("unavailable")

    def put(self, tenant: str, digest: bytes, standing: int) -> None:
        raise OSError("unavailable")

    def doubtful_until_s(self, tenant: str) -> float:
        raise OSError("unavailable")


def test_when_nobody_knows_what_was_restricted_before_every_call_is(pool: Pool, kit: Any) -> None:
    taint = Taint(10, 10, time.monotonic, b"k" * 32, Unavailable())
    models = {"chat": CatalogModel("chat", "generate", ("gpu",))}
    classifier = Classifier(
        ClassifySettings(), Catalog(models=models), pool, time.monotonic, taint=taint
    )
    found = classify(classifier, kit.make_request(said("hello")))
    assert (found.reason, found.restricted) == ("failed", True)


def test_more_restricted_conversations_than_the_memory_has_room_for_stay_restricted(
    pool: Pool, kit: Any
) -> None:
    settings = ClassifySettings(memory=MemorySettings(taints=3))
    classifier = kit.make_classifier(pool, settings)
    for number in range(4):
        classify(classifier, kit.make_request(said(f"{number} {SSN}")))
    for number in range(4):
        later = said(f"{number} {SSN}", "Noted.", "And?")
        assert classify(classifier, kit.make_request(later)).reason == "tainted"
    found = classify(classifier, kit.make_request(said("Hello.", "Hello!", "How are you?")))
    assert (found.reason, found.restricted) == ("clear", False)


# What a key adds


@pytest.mark.parametrize(
    ("added", "text", "reason"),
    [
        (Tightening(), "www. weak", "clear"),
        (Tightening(types=frozenset({"URL"})), "www.", "entities"),
        (Tightening(types=frozenset({"URL"})), "weak", "clear"),
        (Tightening(threshold=0.2), "weak", "entities"),
    ],
)
def test_a_key_s_own_rules_weigh_its_calls(
    added: Tightening, text: str, reason: str, classifier: Classifier, kit: Any
) -> None:
    request = kit.make_request(said(text))
    assert classify(classifier, request).reason == "clear"
    tightened = dataclasses.replace(request, tightening=added)
    assert classify(classifier, tightened).reason == reason
    assert classify(classifier, request).reason == "clear"


def test_workers_look_for_what_restricts_any_caller() -> None:
    settings = ClassifySettings(restrict=("US_SSN",))
    added = {Tightening("strict"), Tightening(types=frozenset({"URL"}), threshold=0.1)}
    spec = worker_spec(settings, added)
    assert spec.types is not None
    assert spec.types >= Profile.from_settings(ClassifySettings(profile="strict")).types | {"URL"}
    assert spec.settings.threshold == 0.1
    assert spec.required == {"US_SSN", "URL"}
    assert {kind for kind, _ in spec.canaries} >= {
        kind for kind, _ in canaries.positives(ClassifySettings(profile="strict"))
    }


def test_embeddings_and_prompts_have_no_turns(classifier: Classifier, kit: Any) -> None:
    for operation, key in ((EMBEDDINGS, "input"), (COMPLETIONS, "prompt")):
        for text, reason in ((SSN, "entities"), (f"{LONG}", "clear")):
            call = DocumentCall(operation, {"model": "chat", key: [text]})
            assert classify(classifier, kit.make_request(call)).reason == reason


# A scan that stops at the first finding stops for its own caller

STRICT_URL = Tightening(types=frozenset({"URL"}))


@pytest.fixture(scope="module")
def first() -> FirstVerdict:
    """As workers build it where one caller restricts URLs too."""
    settings = ClassifySettings()
    return FirstVerdict(settings, Profile.widest(settings, [STRICT_URL]).types)


class Stopping:
    """The scanner of verdicts, as its worker asks it."""

    def __init__(self, first: FirstVerdict) -> None:
        self._first = first

    async def start(self) -> None: ...
    async def aclose(self) -> None: ...

    async def scan(
        self, texts: Sequence[str], budget_s: float, restricts: Restricting | None = None
    ) -> list[list[Finding]]:
        job = {"restricts": None if restricts is None else [sorted(restricts[0]), restricts[1]]}
        return [worker._scan_findings(self._first, text, job) for text in texts]


@pytest.mark.parametrize("added", [Tightening(), STRICT_URL])
@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        (f"see https://rivers.example/a and {LONG}", ("clear", "entities")),
        (f"see https://rivers.example/a {LONG * 8} {SSN}", ("entities", "entities")),
        (f"see https://rivers.example/a {LONG} 5-3-6-9-0-4-3-9-9 ssn five three six nine zero "
         "four three nine nine", ("entities", "entities")),
    ],
)  # fmt: skip
def test_what_restricts_another_caller_alone_does_not_end_a_scan(
    text: str, reasons: tuple[str, str], added: Tightening, first: FirstVerdict, kit: Any
) -> None:
    classifier = Classifier(
        ClassifySettings(),
        Catalog(models={"chat": CatalogModel("chat", "generate", ("gpu",))}),
        Stopping(first),
        time.monotonic,
        added=(STRICT_URL,),
    )
    request = dataclasses.replace(kit.make_request(said(text)), tightening=added)
    assert classify(classifier, request).reason == reasons[added == STRICT_URL]


def test_what_restricts_nobody_does_not_end_a_scan_either() -> None:
    """A card in odd groups is found whatever is looked for; the mail behind it is encoded."""
    types = frozenset({"EMAIL_ADDRESS"})
    mail = base64.b64encode(b"write to maria.keller@posteo.com please, thanks").decode()
    scanner = FirstVerdict(ClassifySettings(restrict=tuple(types)), types)
    found = scanner.scan(f"41111 11111 111111 and {mail}")
    assert {f.type for f in found} == {"CREDIT_CARD", "EMAIL_ADDRESS"}


LONE_NAMES = """
recognizers:
  - name: LoneNames
    supported_entity: PERSON
    supported_language: en
    patterns: [{name: lone, regex: '\\bAnna\\b', score: 0.4}]
"""


def test_a_lone_name_does_not_end_a_scan_before_what_restricts(tmp_path: Path) -> None:
    """It does not restrict by itself in `balanced`: what stands behind it must still be found."""
    path = tmp_path / "recognizers.yaml"
    path.write_text(LONE_NAMES)
    settings = ClassifySettings(recognizers=path)
    profile = Profile.from_settings(settings)
    text = f"Anna {'waters the tulips before noon. ' * 200} {SSN}"
    found = FirstVerdict(settings, profile.types).scan(text)
    assert "PERSON" in {f.type for f in found}
    assert profile.restricts(found)


# What may leave with surrogates


@pytest.mark.parametrize("masked", [True, False])
def test_a_conversation_that_may_be_masked_is_read_again_and_not_tainted(
    masked: bool, classifier: Classifier, kit: Any
) -> None:
    def ask(*texts: str) -> str:
        request = dataclasses.replace(kit.make_request(said(*texts)), pseudonymise=masked)
        return classify(classifier, request).reason

    assert ask(SSN) == "entities"
    assert ask(SSN, "I see.", "And now?") == ("entities" if masked else "tainted")
    assert ask("Fine.", "Yes.", "Go on.") == "clear"


def test_a_conversation_that_may_be_masked_leaves_masked_or_not_at_all(
    classifier: Classifier, kit: Any
) -> None:
    def ask(document: dict[str, Any], masked: bool, key: Tightening = NOT_TIGHTENED) -> str:
        request = dataclasses.replace(
            kit.make_request(document), pseudonymise=masked, tightening=key
        )
        return classify(classifier, request).reason

    noted = {"metadata": {"note": SSN}}
    assert ask({**said("Who is this?"), **noted}, masked=True) == "entities"
    later = said("Who is this?", "A patient.", "Which ward?")
    assert ask(later, masked=False) == "tainted"
    assert (
        ask({**later, **noted}, masked=True, key=Tightening(types=frozenset({"URL"}))) == "tainted"
    )
    assert ask(said("Who is that?", "A patient.", "Which ward?"), masked=True) == "clear"
    fresh = said("Who was it?")
    assert ask({**fresh, **noted}, masked=True) == "entities"
    goes_on = said("Who was it?", "A patient.", "Which ward?")
    assert ask({**goes_on, **noted}, masked=True) == "entities"
    assert ask(goes_on, masked=True) == "tainted"  # what was found is not there to be replaced


def test_no_pseudonyms_keep_a_sequence_from_being_tainted(classifier: Classifier) -> None:
    """Tensors are never masked, and a step of a sequence is not sent again."""
    step = dataclasses.replace(numbers(1, text=SSN.encode()), pseudonymise=True)
    assert classify(classifier, step).reason == "entities"
    assert classify(classifier, numbers(1)).reason == "tainted"
