# ruff: noqa: E501 - a case a line
"""People in parts over the fields and messages of a whole call, whatever was read of it before."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.classify.classifier import Classifier
from gateway.classify.names import Enough, Names
from gateway.config import ClassifySettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.types import (
    Classification,
    DocumentCall,
    Finding,
    InferenceRequest,
    Parameter,
    Payload,
    Tensor,
    TensorCall,
    WireProtocol,
)
from tests.unit.classify.names.test_names_records import ByModel, NobodyKnown

GIVEN, FAMILY = "Zorvana", "Kelbrinsky"
RECORD = {"first_name": GIVEN, "last_name": FAMILY}
MODELS = {
    "chat": CatalogModel("chat", "generate", ("gpu",)),
    "text": CatalogModel(
        "text", "infer", ("gpu",), text_inputs=frozenset({"TEXT", "first_name", "last_name"})
    ),
}
PROSE = "A heat pump moves warmth from the outside into the house. " * 12


class NothingFound:
    """Pattern scans of texts that hold no number."""

    async def start(self) -> None: ...
    async def aclose(self) -> None: ...

    async def scan(
        self, texts: Sequence[str], budget_s: float, restricts: object = None
    ) -> list[list[Finding]]:
        return [[] for _ in texts]


def classifier(search: Names, **settings: Any) -> Classifier:
    return Classifier(
        ClassifySettings.model_validate({"budget_ms": 30_000, **settings}),
        Catalog(models=dict(MODELS)),
        NothingFound(),
        time.monotonic,
        names=search,
    )


async def verdict(looks: Classifier, payload: Payload, model: str = "chat") -> Classification:
    request = InferenceRequest(
        id="r-1",
        protocol=WireProtocol.OPENAI,
        tenant="t",
        model=model,
        payload=payload,
        deadline=Deadline.after(60.0),
    )
    return await looks.complete(request, await looks.classify(request))


def chat(*messages: dict[str, Any], **fields: Any) -> DocumentCall:
    return DocumentCall(CHAT, {"model": "chat", "messages": list(messages), **fields})


def say(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


def document(operation: OperationSpec, **fields: Any) -> DocumentCall:
    return DocumentCall(operation, {"model": "chat", **fields})


def bytes_of(*elements: str) -> bytes:
    octets = [element.encode() for element in elements]
    return b"".join(struct.pack("<I", len(one)) + one for one in octets)


def column(name: str, *elements: str) -> Tensor:
    return Tensor(name, "BYTES", (len(elements),), bytes_of(*elements))


def tensors(*inputs: Tensor, parameters: dict[str, Parameter] | None = None) -> TensorCall:
    return TensorCall(inputs, parameters=parameters or {})


def _call(arguments: str) -> dict[str, Any]:
    function = {"name": "create_customer", "arguments": arguments}
    call = {"id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


JSON = json.dumps(RECORD)
PLACES: dict[str, tuple[Payload, str]] = {
    **{
        f"chat {role}": (chat(say(JSON, role), say("go on")), "chat")
        for role in ("system", "developer", "user", "assistant")
    },
    "chat parts": (
        chat({"role": "user", "content": [
            {"type": "text", "text": f"First name: {GIVEN}"},
            {"type": "text", "text": f"Last name: {FAMILY}"},
        ]}),
        "chat",
    ),
    "chat tool arguments": (chat(say("add her"), _call(JSON)), "chat"),
    "chat tool result": (
        chat(say("who?"), {"role": "tool", "tool_call_id": "call_1", "content": JSON}), "chat",
    ),
    "chat metadata": (chat(say("go on"), metadata=RECORD), "chat"),
    "chat unknown field": (chat(say("go on"), context={"rows": [RECORD]}), "chat"),
    "chat nested field": (
        chat(say("go on"), person={"name": {"first": GIVEN, "last": FAMILY}}), "chat",
    ),
    "chat prediction": (chat(say("go on"), prediction={"type": "content", "content": JSON}), "chat"),
    "chat two messages": (
        chat(say(f"my first name is {GIVEN}"), say("thank you", "assistant"),
             say(f"and the last name {FAMILY}")),
        "chat",
    ),
    "completions prompt": (document(COMPLETIONS, prompt=f"{JSON}\nSummarise."), "chat"),
    "completions prompts": (
        document(COMPLETIONS, prompt=[f"Vorname: {GIVEN}", f"Nachname: {FAMILY}"]), "chat",
    ),
    "completions suffix": (document(COMPLETIONS, prompt="a", suffix=JSON), "chat"),
    "embeddings input": (document(EMBEDDINGS, input=JSON), "chat"),
    "embeddings list": (
        document(EMBEDDINGS, input=[f"imię: {GIVEN}", f"nazwisko: {FAMILY}"]), "chat",
    ),
    "responses input": (document(RESPONSES, input=JSON), "chat"),
    "responses items": (
        document(RESPONSES, input=[
            {"role": "user", "content": [{"type": "input_text", "text": f"nom: {FAMILY}"}]},
            {"role": "user", "content": [{"type": "input_text", "text": f"prénom: {GIVEN}"}]},
        ]),
        "chat",
    ),
    "responses arguments": (
        document(RESPONSES, input=[
            {"type": "function_call", "call_id": "1", "name": "add", "arguments": JSON}]),
        "chat",
    ),
    "responses output": (
        document(RESPONSES, input=[
            {"type": "function_call_output", "call_id": "1", "output": JSON}]),
        "chat",
    ),
    "responses instructions": (
        document(RESPONSES, input="go on", instructions=JSON), "chat",
    ),
    "tensor": (tensors(column("TEXT", JSON)), "text"),
    "tensor of elements": (
        tensors(column("TEXT", f"first name: {GIVEN}", f"last name: {FAMILY}")), "text",
    ),
    "tensors by column": (
        tensors(column("first_name", "", GIVEN), column("last_name", "", FAMILY)), "text",
    ),
    "parameters": (tensors(column("TEXT", "go on"), parameters=dict(RECORD)), "text"),
}  # fmt: skip
"""Where the two parts may stand: (call, model)."""


@pytest.mark.parametrize("place", PLACES)
def test_a_person_in_two_fields_restricts_wherever_the_fields_are(place: str) -> None:
    """Without a model that knows the name: the keys tell."""
    answer = asyncio.run(verdict(classifier(NobodyKnown()), *PLACES[place]))
    assert (answer.restricted, answer.reason) == (True, "entities")
    assert answer.entities["PERSON"] >= 1


MESSAGES = {
    "HL7": f"PID|1||651203^^^ADT||{FAMILY.upper()}^{GIVEN.upper()}||1981-09-21|F",
    "vCard": f"BEGIN:VCARD\nVERSION:3.0\nN:{FAMILY};{GIVEN};;;\nEND:VCARD",
    "CSV": f"id,first_name,last_name,plan\n7,{GIVEN},{FAMILY},basic\n",
    "CSV, quoted": f'"plan","first_name","last_name"\r\n"basic","{GIVEN}","{FAMILY}"\r\n',
    "CSV, semicolons": f"id;Vorname;Nachname\n7;{GIVEN};{FAMILY}\n",
    "X12": f"ST*837*1~\nNM1*IL*1*{FAMILY.upper()}*{GIVEN.upper()}****MI*12345~",
}
"""Records whose fields have places, below a head or by a standard."""


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("escaped", [False, True], ids=["as it is", "in JSON"])
def test_a_person_in_a_message_of_fixed_places_restricts(message: str, *, escaped: bool) -> None:
    text = json.dumps({"message": MESSAGES[message]}) if escaped else MESSAGES[message]
    for payload, model in (
        (chat(say(text), say("go on")), "chat"),
        (chat(say("go on"), context={"rows": [text]}), "chat"),
        (tensors(column("TEXT", text, "go on")), "text"),
    ):
        answer = asyncio.run(verdict(classifier(NobodyKnown()), payload, model))
        assert (answer.restricted, answer.reason) == (True, "entities")


@pytest.mark.parametrize("when", ["at_the_door", "always"])
def test_the_first_look_finds_the_person_where_names_are_looked_for_in_it(when: str) -> None:
    async def first() -> Classification:
        looks = classifier(NobodyKnown(), names={"when": when})
        payload, model = PLACES["chat metadata"]
        request = InferenceRequest(
            "r-1", WireProtocol.OPENAI, "t", model, payload, Deadline.after(60.0)
        )
        return await looks.classify(request)

    assert asyncio.run(first()).restricted == (when == "always")


def test_a_second_part_joins_a_first_that_was_read_and_cleared_before() -> None:
    """Far from it, with text between that was remembered as clear."""
    turns = [say(f"My first name is {GIVEN}. {PROSE}"), say(PROSE, "assistant"), say(PROSE)]

    async def both() -> tuple[bool, bool]:
        looks = classifier(NobodyKnown())
        before = await verdict(looks, chat(*turns))
        after = await verdict(looks, chat(*turns, say("a"), say(f"My surname is {FAMILY}.")))
        return before.restricted, after.restricted

    assert asyncio.run(both()) == (False, True)


def test_a_particular_makes_a_lone_name_tell_that_was_read_and_cleared_before(
    weights: Path,
) -> None:
    turns = [
        say(f"{PROSE} Anna asks for her papers."),
        say("Which ones? " + PROSE[:280], "assistant"),
    ]

    async def both() -> tuple[bool, bool]:
        looks = classifier(ByModel(weights))
        before = await verdict(looks, chat(*turns))
        after = await verdict(looks, chat(*turns, say("She was born on 12 March 1980. " + PROSE)))
        return before.restricted, after.restricted

    assert asyncio.run(both()) == (False, True)


class Asked(NobodyKnown):
    """Knows a name where it is asked about it alone, as a model does that prose has misled."""

    async def find(
        self,
        texts: Sequence[str],
        budget_s: float,
        lone: Sequence[bool] | None = None,
        enough: Enough | None = None,
    ) -> list[list[Finding]]:
        return [
            [Finding("PERSON", 9, 9 + len(FAMILY), 0.4)] if text == f"Patient: {FAMILY}." else []
            for text in texts
        ]


def test_a_name_under_a_weak_key_is_asked_about_beside_a_particular() -> None:
    form = f"note {PROSE}\nName: {FAMILY}\nDate of birth: 1951-03-19\nDiagnosis: type 2 diabetes"
    for text, restricted in ((form, True), (form.split("\nDate")[0], False)):
        payload = document(EMBEDDINGS, input=text)
        answer = asyncio.run(verdict(classifier(Asked()), payload))
        assert answer.restricted == restricted


def test_a_number_that_is_no_text_is_a_particular(weights: Path) -> None:
    """It is too short to be scanned, and stands beside the name all the same."""
    record = {"name": "Katarzyna", "customer_number": 48213}
    answer = asyncio.run(verdict(classifier(ByModel(weights)), chat(say("go"), metadata=record)))
    assert answer.restricted
    alone = {"name": "Katarzyna", "size": 48213}
    answer = asyncio.run(verdict(classifier(ByModel(weights)), chat(say("go"), metadata=alone)))
    assert not answer.restricted


def test_values_that_are_no_text_do_not_make_the_next_key_a_name(weights: Path) -> None:
    record = {"firstName": None, "Zorvana": True, "lastName": None, "Kelbrinsky": 4}
    answer = asyncio.run(verdict(classifier(NobodyKnown()), chat(say("go on"), context=record)))
    assert not answer.restricted


TOOL = {
    "type": "function",
    "function": {
        "name": "create_customer",
        "description": "Creates a customer. Ask for the first name and the last name.",
        "parameters": {
            "type": "object",
            "properties": {
                "first_name": {"type": "string", "description": "Given name"},
                "last_name": {"type": "string", "description": "Family name"},
                "date_of_birth": {"type": "string", "format": "date"},
                "diagnosis": {"type": "string", "enum": ["asthma", "other"]},
            },
            "required": ["first_name", "last_name"],
        },
    },
}


@pytest.mark.parametrize(
    "call",
    [
        chat(say("Create a customer."), tools=[TOOL]),
        chat(say("Rename firstName to given_name in this class."), say("Done.", "assistant")),
        chat(say("Which columns has people?"), _call(json.dumps({"table": "people"})),
             say("id, first_name, last_name, plan", "user")),
        chat(say("INSERT INTO people (first_name, last_name) VALUES (?, ?)")),
        chat(say("go on"), metadata={"first_name": "", "last_name": "", "plan": "Basic"}),
    ],
    ids=["tool", "code", "columns", "placeholders", "empty"],
)  # fmt: skip
def test_calls_that_speak_of_names_and_of_nobody_are_clear(
    call: DocumentCall, weights: Path
) -> None:
    answer = asyncio.run(verdict(classifier(ByModel(weights)), call))
    assert (answer.restricted, answer.reason) == (False, "clear")


def test_a_person_whom_the_settings_allow_does_not_restrict() -> None:
    looks = classifier(NobodyKnown(), allow_list=[f"{GIVEN} {FAMILY}"])
    assert not asyncio.run(verdict(looks, chat(say("go on"), metadata=RECORD))).restricted


def test_where_names_do_not_restrict_their_parts_do_not() -> None:
    looks = classifier(NobodyKnown(), profile="balanced", restrict=["USERNAME"])
    assert not asyncio.run(verdict(looks, chat(say("go on"), metadata=RECORD))).restricted


def test_a_text_of_a_tensor_is_read_once(weights: Path) -> None:
    """What stands twice in a call reads differently from what stands there once."""
    call = tensors(column("TEXT", f"{GIVEN} {FAMILY} is what the form says.", "note on the tank"))
    answer = asyncio.run(verdict(classifier(ByModel(weights)), call, "text"))
    assert (answer.reason, answer.entities) == ("entities", {"PERSON": 1})
