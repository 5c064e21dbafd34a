"""What may leave in the place of a restricted call, and every doubt that keeps it as it is."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from gateway.classify import NoScan, ScanLate
from gateway.classify.pseudonyms import DOUBTS
from gateway.classify.pseudonyms.documents import strings
from gateway.classify.pseudonyms.ledger import MAX_VALUES, SurrogateLedger
from gateway.classify.pseudonyms.masking import Masked, Masker
from gateway.classify.pseudonyms.pseudonymiser import PseudonymisedCall, Pseudonymiser
from gateway.core.deadline import Deadline
from gateway.core.errors import EgressForbidden
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.reply import (
    Frame,
    InferenceReply,
    JsonBody,
    OneFrame,
    Placement,
    received,
)
from gateway.core.types import (
    EVERYWHERE,
    Classification,
    Decision,
    DocumentCall,
    Finding,
    InferenceRequest,
    JsonDocument,
    Sensitivity,
    TensorCall,
    Tightening,
    WireProtocol,
    Zone,
)
from gateway.endpoints.connectors import Cleared
from tests.unit.pseudonyms.samples import VALUES, found

EMAIL = "maria.keller@posteo.example"
ID = "0a0b0c0d-0000-4000-8000-000000000001"
SECRET = "sk-proj-0123456789abcdef0123456789abcdef"


@dataclass
class ScriptedFinder:
    """Finds the values of the samples, and whatever else it is told."""

    more: tuple[tuple[str, str], ...] = ()
    error: Exception | None = None
    error_at: int = 0  # the first look or the second
    misses: str = ""
    texts: list[str] = field(default_factory=list)

    async def find(self, text: str, added: Tightening, budget_s: float) -> list[Finding]:
        assert budget_s > 0
        self.texts.append(text)
        if self.error is not None and len(self.texts) > self.error_at:
            raise self.error
        values = [v for v in (*VALUES, *self.more) if v[1] != self.misses]
        return found(text, values)


@dataclass
class ScriptedVerdicts:
    """Restricts what holds a value of the samples, anywhere; keys and numbers too."""

    reason: str = ""  # instead of what it would say
    complete_at_once: bool = True
    completed_as: Sensitivity = Sensitivity.CLEAR
    completes: bool = True
    other_id: bool = False
    seen: list[InferenceRequest] = field(default_factory=list)

    async def classify(self, request: InferenceRequest) -> Classification:
        self.seen.append(request)
        assert isinstance(request.payload, DocumentCall)
        text = "\n".join(text for _, text in strings(request.payload.document))
        reason = self.reason or ("entities" if found(text) else "clear")
        return Classification(
            "another" if self.other_id else request.id,
            Sensitivity.CLEAR if reason == "clear" else Sensitivity.RESTRICTED,
            reason,
            complete=self.complete_at_once,
        )

    async def complete(
        self, request: InferenceRequest, classification: Classification
    ) -> Classification:
        return replace(classification, sensitivity=self.completed_as, complete=self.completes)


@dataclass
class Rig:
    finder: ScriptedFinder = field(default_factory=ScriptedFinder)
    verdicts: ScriptedVerdicts = field(default_factory=ScriptedVerdicts)
    doubts: Counter[str] = field(default_factory=Counter)
    seed: int = 0
    masker: Masker | None = None

    def instead(
        self, request: InferenceRequest, verdict: Classification | None = None
    ) -> PseudonymisedCall | None:
        return asyncio.run(self.made(request, verdict))

    async def made(
        self, request: InferenceRequest, verdict: Classification | None = None
    ) -> PseudonymisedCall | None:
        maker = Pseudonymiser(
            self.finder, self.verdicts, lambda: 5.0, lambda why: self.doubts.update([why]),
            Random(self.seed), masker=self.masker,
        )  # fmt: skip
        return await maker.instead(request, verdict or restricted())


def chat(*texts: str, **more: Any) -> InferenceRequest:
    messages = [{"role": "user", "content": text} for text in texts]
    return call({"model": "m", "messages": messages, **more})


def call(document: JsonDocument, operation: OperationSpec = CHAT) -> InferenceRequest:
    return InferenceRequest(
        id=ID,
        protocol=WireProtocol.OPENAI,
        tenant="t",
        model="m",
        payload=DocumentCall(operation, document),
        deadline=Deadline.after(60),
        pseudonymise=True,
    )


def restricted(reason: str = "entities", request_id: str = ID) -> Classification:
    return Classification(request_id, Sensitivity.RESTRICTED, reason, {"PERSON": 1}, classify_s=0.5)


async def only(reply: InferenceReply) -> Frame:
    frame, *_ = await received(reply.frames)
    return frame


def document_of(request: InferenceRequest) -> JsonDocument:
    assert isinstance(request.payload, DocumentCall)
    return request.payload.document


def everything(request: InferenceRequest) -> str:
    return "\n".join(text for _, text in strings(document_of(request)))


# What may leave


def test_a_call_leaves_with_surrogates_and_a_verdict_and_an_id_of_its_own() -> None:
    rig = Rig()
    instead = rig.instead(chat(f"Mail {EMAIL}", "and Maria Keller", temperature=0.5))
    assert instead is not None
    assert EMAIL not in everything(instead.request)
    assert "Keller" not in everything(instead.request)
    assert document_of(instead.request)["temperature"] == 0.5
    assert instead.request.id != ID
    assert instead.classification.request_id == instead.request.id
    assert instead.classification.sensitivity is Sensitivity.CLEAR
    assert instead.classification.complete
    assert instead.classification.reason == "pseudonymised"
    assert instead.classification.pseudonymised == {"EMAIL_ADDRESS": 1, "PERSON": 1}
    assert instead.classification.entities == {"PERSON": 1}
    assert instead.classification.classify_s == 0.5
    assert not rig.doubts


def test_its_verdict_cannot_clear_the_call_that_it_was_made_from() -> None:
    request = chat(EMAIL)
    instead = Rig().instead(request)
    assert instead is not None
    decision = Decision((), "spill_queue", EVERYWHERE)
    Cleared(Zone.CLOUD, instead.request, instead.classification, decision)
    with pytest.raises(EgressForbidden):
        Cleared(Zone.CLOUD, request, instead.classification, decision)


def test_the_answer_has_the_originals() -> None:
    instead = Rig().instead(chat(f"Mail {EMAIL} to Maria Keller"))
    assert instead is not None
    said = json.dumps({"echo": document_of(instead.request)["messages"][0]["content"]})
    placement = Placement(Zone.CLOUD, "cloud", "spill_queue", 1, Sensitivity.CLEAR, 0.0)
    reply = instead.restored(InferenceReply(placement, OneFrame(JsonBody(said.encode()))))
    frame = asyncio.run(only(reply))
    assert isinstance(frame, JsonBody)
    assert json.loads(frame.body) == {"echo": f"Mail {EMAIL} to Maria Keller"}


def test_what_is_judged_is_the_new_text_with_a_sign_for_each_surrogate() -> None:
    """And all of it, protocol fields too, under the caller's own terms."""
    rig = Rig()
    request = replace(chat(f"Mail {EMAIL}."), tightening=Tightening(profile="strict"))
    instead = rig.instead(request)
    assert instead is not None
    (judged,) = rig.verdicts.seen
    expected = json.loads(json.dumps(document_of(request)).replace(EMAIL, "#"))
    assert document_of(judged) == expected
    assert judged.id == instead.request.id
    assert judged.tightening == request.tightening
    assert (
        rig.finder.texts[1].split("\n|\n")[-1]
        == document_of(instead.request)["messages"][0]["content"]
    )


def test_every_string_is_replaced_wherever_it_stands_and_keys_are_not() -> None:
    document = {
        "model": "m",
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": f"for {EMAIL}"}]},
            {"role": "assistant", "tool_calls": [
                {"id": "t", "function": {"name": "f", "arguments": json.dumps({"to": EMAIL})}}]},
            {"role": "tool", "tool_call_id": "t", "content": f"sent to {EMAIL}"},
        ],
        "user": EMAIL,
        "metadata": {"owner": EMAIL},
        "stop": [EMAIL],
    }  # fmt: skip
    instead = Rig().instead(call(document))
    assert instead is not None
    text = json.dumps(document_of(instead.request))
    surrogate = document_of(instead.request)["user"]
    assert EMAIL not in text
    assert text.count(surrogate) == json.dumps(document).count(EMAIL)
    assert list(document_of(instead.request)) == list(document)


@pytest.mark.parametrize("operation", [COMPLETIONS, RESPONSES])
def test_other_text_operations_are_pseudonymised_too(operation: OperationSpec) -> None:
    assert Rig().instead(call({"prompt": EMAIL, "input": EMAIL}, operation)) is not None


def test_nothing_of_the_originals_is_in_random_documents() -> None:
    async def main(random: Random, masker: Masker) -> None:
        for seed in range(300):
            values = [value for _, value in random.sample(VALUES, random.randint(1, 6))]
            frames = [random.choice(("", "about ", "> ")) for _ in range(4)]
            words = [*values, *random.choices(values, k=4)]
            texts = [f"{random.choice(frames)}{word}." for word in words]
            rig = Rig(seed=seed, masker=masker)
            instead = await rig.made(chat(*texts, user=words[0]))
            assert instead is not None, (words, rig.doubts)
            text = everything(instead.request).casefold()
            for value in values:
                assert value.casefold() not in text
                assert "".join(filter(str.isalnum, value)).casefold() not in text

    asyncio.run(main(Random(7), Masker()))


# Who stays


def stays(
    rig: Rig, request: InferenceRequest, verdict: Classification | None = None
) -> Counter[str]:
    assert rig.instead(request, verdict) is None
    return rig.doubts


def test_a_call_whose_key_or_model_does_not_allow_it_stays() -> None:
    rig = Rig()
    assert not stays(rig, replace(chat(EMAIL), pseudonymise=False))
    assert not rig.finder.texts


@pytest.mark.parametrize(
    "reason",
    ["late", "failed", "busy", "over_cap", "unscannable:image", "undeclared_model", "tensor_class",
     "labelled", "tainted", "taint_lost", "clear"],
)  # fmt: skip
def test_a_call_that_is_restricted_for_anything_but_its_findings_stays(reason: str) -> None:
    rig = Rig()
    assert not stays(rig, chat(EMAIL), restricted(reason))
    assert not rig.finder.texts


def test_a_call_that_its_caller_labels_stays_whatever_its_verdict_says() -> None:
    rig = Rig()
    assert not stays(rig, replace(chat(EMAIL), labelled=True))
    assert not rig.finder.texts


def test_a_verdict_on_another_call_counts_for_nothing() -> None:
    assert not stays(Rig(), chat(EMAIL), restricted(request_id="another"))


def test_a_clear_call_needs_nothing() -> None:
    clear = Classification(ID, Sensitivity.CLEAR, "entities")
    assert not stays(Rig(), chat("hello"), clear)


def test_tensors_and_embeddings_stay() -> None:
    assert not stays(Rig(), call({"input": EMAIL}, EMBEDDINGS))
    assert not stays(Rig(), replace(chat(EMAIL), payload=TensorCall(())))


@pytest.mark.parametrize("error_at", [0, 1], ids=["before", "after"])
@pytest.mark.parametrize(
    ("error", "why"),
    [(ScanLate("late"), "no_scan"), (NoScan(), "no_scan"), (ValueError(EMAIL), "failed")],
)  # fmt: skip
def test_a_scan_that_is_late_or_fails_keeps_the_call(
    error: Exception, why: str, error_at: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert stays(Rig(ScriptedFinder(error=error, error_at=error_at)), chat(EMAIL)) == {why: 1}
    assert EMAIL not in caplog.text
    assert not any(r.exc_info for r in caplog.records)


def test_a_new_text_in_which_the_finder_finds_something_else_stays() -> None:
    """The word that the surrogate made possible, say."""

    class Suspicious(ScriptedFinder):
        async def find(self, text: str, added: Tightening, budget_s: float) -> list[Finding]:
            known = await super().find(text, added, budget_s)
            at = text.index("and then")
            return known if len(self.texts) == 1 else [Finding("PERSON", at, at + 8, 0.9)]

    assert stays(Rig(Suspicious()), chat(f"{EMAIL} and then")) == {"not_clean": 1}


def test_a_finding_that_is_only_partly_a_surrogate_stays() -> None:
    class Greedy(ScriptedFinder):
        async def find(self, text: str, added: Tightening, budget_s: float) -> list[Finding]:
            known = await super().find(text, added, budget_s)
            at = text.find("@example")
            return known if len(self.texts) == 1 else [Finding("URL", at + 1, at + 14, 0.9)]

    request = chat(f"{EMAIL}/x")
    assert stays(Rig(Greedy()), request) == {"not_clean": 1}


@pytest.mark.parametrize("reason", ["entities", "late", "tainted", "unscannable:image", "busy"])
def test_a_new_text_that_is_not_clear_stays(reason: str) -> None:
    assert stays(Rig(verdicts=ScriptedVerdicts(reason)), chat(EMAIL)) == {"not_clean": 1}


def test_a_new_text_is_read_for_names_too_before_it_leaves() -> None:
    half = ScriptedVerdicts(complete_at_once=False)
    assert Rig(verdicts=half).instead(chat(EMAIL)) is not None
    half = ScriptedVerdicts(complete_at_once=False, completed_as=Sensitivity.RESTRICTED)
    assert stays(Rig(verdicts=half), chat(EMAIL)) == {"not_clean": 1}
    half = ScriptedVerdicts(complete_at_once=False, completes=False)
    assert stays(Rig(verdicts=half), chat(EMAIL)) == {"not_clean": 1}


def test_a_verdict_that_is_not_on_the_new_call_keeps_the_old_one() -> None:
    assert stays(Rig(verdicts=ScriptedVerdicts(other_id=True)), chat(EMAIL)) == {"not_clean": 1}


@pytest.mark.parametrize(
    "more",
    [
        {"metadata": {EMAIL: "x"}},
        {"metadata": {"a": "4111 1111", "b": "1111 1111"}},
        {"number": 4111111111111111},
    ],
    ids=["key", "two strings", "number"],
)
def test_a_finding_outside_of_one_string_keeps_the_call(more: JsonDocument) -> None:
    card = "4111 1111\n|\nb\n|\n1111 1111"
    finder = ScriptedFinder((("CREDIT_CARD", "4111111111111111"), ("US_BANK_NUMBER", card)))
    assert stays(Rig(finder), chat(EMAIL, **more)) == {"elsewhere": 1}


def test_a_call_in_which_nothing_is_found_again_stays() -> None:
    assert stays(Rig(), chat("nothing")) == {"elsewhere": 1}


@pytest.mark.parametrize(
    "type_", ["SECRET", "DENY_LIST", "HIDDEN_TEXT", "CREDIT_CARD", "PERSON", "US_PASSPORT"]
)
def test_a_finding_without_a_surrogate_keeps_the_call(type_: str) -> None:
    finder = ScriptedFinder(((type_, SECRET),))
    assert stays(Rig(finder), chat(f"{EMAIL} has {SECRET}")) == {"no_surrogate": 1}


HTML = f"<p>{EMAIL}</p>"


def test_a_finding_in_a_derived_form_of_a_known_value_is_no_other_one() -> None:
    """Text between tags is read without them too; such a finding has the span of all that."""
    rig = Rig(ScriptedFinder((("EMAIL_ADDRESS", HTML),)))
    instead = rig.instead(chat(f"say {HTML}"))
    assert instead is not None
    assert EMAIL not in everything(instead.request)
    assert instead.classification.pseudonymised == {"EMAIL_ADDRESS": 1}


def test_a_derived_form_of_nothing_that_is_known_keeps_the_call() -> None:
    finder = ScriptedFinder((("EMAIL_ADDRESS", "bWFyaWFAcG9zdGVvLmRl"),))
    assert stays(Rig(finder), chat(f"{EMAIL} bWFyaWFAcG9zdGVvLmRl")) == {"no_surrogate": 1}


@pytest.mark.parametrize(
    ("finding", "text"),
    [("EMAIL_ADDRESS", "<p>{}</p>"), ("CREDIT_CARD", "<p>{}</p>"), ("IBAN_CODE", "> {} <")],
)
def test_a_derived_form_of_a_surrogate_is_one_too(finding: str, text: str) -> None:
    """Of whatever type: what else it holds is read with a sign in the surrogate's place."""

    class Tagged(ScriptedFinder):
        async def find(self, joined: str, added: Tightening, budget_s: float) -> list[Finding]:
            known = await super().find(joined, added, budget_s)
            head, _, tail = text.partition("{}")
            start, end = joined.index(head), joined.rindex(tail) + len(tail)
            return known if len(self.texts) == 1 else [Finding(finding, start, end, 0.9)]

    assert Rig(Tagged()).instead(chat(text.format(EMAIL))) is not None


@pytest.mark.parametrize(
    ("text", "leaves"), [("Maria Keller Smith", False), ("Mrs Maria Keller", True)]
)
def test_a_name_that_goes_on_behind_its_surrogate_is_no_surrogate(text: str, leaves: bool) -> None:
    """Unless what it goes on with is a title, which the second look may count in."""

    class Longer(ScriptedFinder):
        async def find(self, joined: str, added: Tightening, budget_s: float) -> list[Finding]:
            known = await super().find(joined, added, budget_s)
            start = joined.rindex("\n") + 1
            return known if len(self.texts) == 1 else [Finding("PERSON", start, len(joined), 0.9)]

    rig = Rig(Longer())
    assert (rig.instead(chat(text)) is not None) == leaves
    assert rig.doubts == ({} if leaves else {"not_clean": 1})


def test_a_derived_form_that_cuts_a_surrogate_keeps_the_call() -> None:
    class Cutting(ScriptedFinder):
        async def find(self, text: str, added: Tightening, budget_s: float) -> list[Finding]:
            known = await super().find(text, added, budget_s)
            at = text.find("@example")
            return known if len(self.texts) == 1 else [Finding("IBAN_CODE", at, len(text), 0.9)]

    assert stays(Rig(Cutting()), chat(f"{EMAIL}. The end")) == {"not_clean": 1}


def test_too_many_values_keep_the_call() -> None:
    values = tuple(("EMAIL_ADDRESS", f"{n:03}@posteo.example") for n in range(MAX_VALUES + 1))
    finder = ScriptedFinder(values)
    assert stays(Rig(finder), chat(" ".join(v for _, v in values))) == {"too_many": 1}


@pytest.mark.parametrize(
    "more",
    [
        {"seed": 4111111111111111},
        {"seed": 111111},
        {"metadata": {"4111-1111-1111-1111": "x"}},
        {"metadata": {"ends in 1111": "x"}},
        {"x": ["411", "11", "111", "11111", "111"]},
        {"user": "NDExMTExMTExMTExMTExMQ=="},
        {"user": "order 94111111111111111"},
    ],
    ids=["number", "end as number", "key", "end in key", "strings", "base64", "longer number"],
)
def test_an_original_that_is_left_in_another_form_keeps_the_call(more: JsonDocument) -> None:
    """Nobody finds it there: neither finder nor classifier."""
    document = {"messages": [], **more, "prompt": "4111 1111 1111 1111"}
    assert stays(Rig(), call(document)) == {"left_over": 1}


@pytest.mark.parametrize(
    "more",
    [
        {"user": "4111.1111.1111.1111"},
        {"user": "card_4111111111111111"},
        {"x": ["4111 1111", "1111 1111"]},
        {"user": "the one that ends in 1111"},
    ],
    ids=["groups", "id", "two strings", "end"],
)
def test_an_original_in_another_form_that_can_be_replaced_is(more: JsonDocument) -> None:
    instead = Rig().instead(call({"messages": [], **more, "prompt": "4111 1111 1111 1111"}))
    assert instead is not None
    assert "1111" not in everything(instead.request)


def test_a_name_that_is_left_in_a_key_keeps_the_call() -> None:
    assert stays(Rig(), chat("Maria Keller", metadata={"of Keller": 1})) == {"left_over": 1}


def test_a_text_that_would_not_come_back_keeps_the_call() -> None:
    class Clumsy(Masker):
        def mask(
            self,
            texts: Sequence[str],
            findings: Sequence[Sequence[Finding]],
            ledger: SurrogateLedger,
        ) -> list[Masked]:
            made = super().mask(texts, findings, ledger)
            return [Masked(m.text.lower(), m.places) for m in made]

    rig = Rig()
    assert stays(replace(rig, masker=Clumsy()), chat("Maria Keller")) == {"not_reversible": 1}


def test_every_doubt_that_can_be_told_is_one_of_the_list() -> None:
    assert all(reason.isidentifier() for reason in DOUBTS)


# The mapping


class Watching(Masker):
    """Knows which ledger it was given, and does not keep it."""

    ledger: weakref.ref[SurrogateLedger]

    def mask(
        self, texts: Sequence[str], findings: Sequence[Sequence[Finding]], ledger: SurrogateLedger
    ) -> list[Masked]:
        self.ledger = weakref.ref(ledger)
        return super().mask(texts, findings, ledger)


def test_a_ledger_that_somebody_keeps_holds_nothing_once_the_call_was_made() -> None:
    class Keeping(Masker):
        kept: SurrogateLedger | None = None

        def mask(
            self,
            texts: Sequence[str],
            findings: Sequence[Sequence[Finding]],
            ledger: SurrogateLedger,
        ) -> list[Masked]:
            self.kept = ledger
            return super().mask(texts, findings, ledger)

    masker = Keeping()
    assert Rig(masker=masker).instead(chat(EMAIL)) is not None
    assert masker.kept is not None
    assert not masker.kept.forms
    assert not masker.kept.originals


@pytest.mark.parametrize("reason", ["", "late"], ids=["leaves", "stays"])
def test_nothing_keeps_the_mapping_once_the_call_is_over(reason: str) -> None:
    masker = Watching()
    instead = Rig(verdicts=ScriptedVerdicts(reason), masker=masker).instead(chat(EMAIL))
    gc.collect()
    assert masker.ledger() is None
    assert (instead is None) == bool(reason)
    if instead is not None:
        surrogate = document_of(instead.request)["messages"][0]["content"]
        assert instead.restorer.whole(surrogate) == EMAIL
        instead.forget()
        assert instead.restorer.whole(surrogate) == surrogate


def test_nothing_of_it_is_ever_shown() -> None:
    instead = Rig().instead(chat(EMAIL))
    assert instead is not None
    assert EMAIL not in repr(instead)
    assert "example" not in repr(instead)
