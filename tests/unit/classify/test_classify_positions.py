"""C2 and C3: wherever text stands it is read, and what is no text is never clear."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from gateway.classify.classifier import Classifier
from gateway.types import Operation, Sensitivity

CARD = "4111 1111 1111 1111"
SAY = f"my card is {CARD}"
HI = {"role": "user", "content": "hi"}


def chat(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "chat", "messages": [HI, *messages], **fields}


def call(arguments: str) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    }


def tool(**function: Any) -> dict[str, Any]:
    return chat(tools=[{"type": "function", "function": {"name": "f", **function}}])


CHAT: dict[str, dict[str, Any]] = {
    "user text": chat({"role": "user", "content": SAY}),
    "earlier turn": chat({"role": "user", "content": SAY}, {"role": "user", "content": "ok"}),
    "system": chat({"role": "system", "content": SAY}),
    "developer": chat({"role": "developer", "content": SAY}),
    "assistant": chat({"role": "assistant", "content": SAY}),
    "tool result": chat({"role": "tool", "tool_call_id": "1", "content": SAY}),
    "tool result parts": chat({"role": "tool", "content": [{"type": "text", "text": SAY}]}),
    "tool call arguments": chat(call(json.dumps({"card": CARD}))),
    "escaped arguments": chat(call('{"card": "\\u0034111 1111 1111 1111"}')),
    "arguments as a number": chat(call('{"card": 4111111111111111}')),
    "tool call id": chat({"role": "tool", "tool_call_id": CARD, "content": "x"}),
    "tool description": tool(description=SAY),
    "tool schema enum": tool(parameters={"properties": {"x": {"enum": [CARD]}}}),
    "tool schema key": tool(parameters={"properties": {CARD: {"type": "string"}}}),
    "name": chat({"role": "user", "name": CARD, "content": "x"}),
    "user": chat(user="maria.keller@posteo.example"),
    "safety identifier": chat(safety_identifier="maria.keller@posteo.example"),
    "metadata value": chat(metadata={"note": CARD}),
    "metadata key": chat(metadata={CARD: "note"}),
    "text part": chat({"role": "user", "content": [{"type": "text", "text": SAY}]}),
    "refusal part": chat({"role": "assistant", "content": [{"type": "refusal", "refusal": SAY}]}),
    "stop": chat(stop=[CARD]),
    "response format": chat(
        response_format={"type": "json_schema", "json_schema": {"schema": {"const": CARD}}}
    ),
    "prediction": chat(prediction={"type": "content", "content": SAY}),
    "number": chat(metadata={"card": 4111111111111111}),
    "float": chat(metadata={"card": 4111111111111111.0}),
    "unknown field": chat(extra_body={"deep": [{"er": SAY}]}),
    "unknown key": chat(extra_body={SAY: 1}),
    "code points": chat(extra=[ord(c) for c in SAY]),
    "split over messages": chat(
        {"role": "user", "content": "My card: 4111 1111"},
        {"role": "user", "content": "1111 1111"},
    ),
    "split over list items": chat(metadata={"card": ["4111", "1111", "1111", "1111"]}),
}
OTHERS: dict[str, tuple[Operation, dict[str, Any]]] = {
    "completions prompt": (Operation.COMPLETIONS, {"prompt": SAY}),
    "completions prompt list": (Operation.COMPLETIONS, {"prompt": ["hi", SAY]}),
    "completions suffix": (Operation.COMPLETIONS, {"prompt": "hi", "suffix": SAY}),
    "embeddings input": (Operation.EMBEDDINGS, {"input": SAY}),
    "embeddings input list": (Operation.EMBEDDINGS, {"input": ["hi", "there", SAY]}),
    "embeddings user": (Operation.EMBEDDINGS, {"input": "hi", "user": "a.b@posteo.example"}),
    "responses input": (Operation.RESPONSES, {"input": SAY}),
    "responses instructions": (Operation.RESPONSES, {"input": "hi", "instructions": SAY}),
    "responses message": (
        Operation.RESPONSES,
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": SAY}]}]},
    ),
    "responses history": (
        Operation.RESPONSES,
        {
            "input": [
                {"type": "message", "role": "assistant", "content": [output_text]}
                for output_text in [{"type": "output_text", "text": SAY}]
            ]
        },
    ),
    "responses call": (
        Operation.RESPONSES,
        {"input": [{"type": "function_call", "name": "f", "arguments": json.dumps({"a": CARD})}]},
    ),
    "responses call output": (
        Operation.RESPONSES,
        {"input": [{"type": "function_call_output", "call_id": "1", "output": SAY}]},
    ),
    "responses tool": (
        Operation.RESPONSES,
        {"input": "hi", "tools": [{"type": "function", "name": "f", "description": SAY}]},
    ),
}
POSITIONS = {name: (Operation.CHAT, body) for name, body in CHAT.items()} | OTHERS


@pytest.mark.parametrize("position", POSITIONS)
def test_personal_data_is_found_in_every_position(
    position: str, classifier: Classifier, kit: Any
) -> None:
    operation, body = POSITIONS[position]
    found = asyncio.run(classifier.classify(kit.make_request(body, operation=operation)))
    assert (found.sensitivity, found.reason) == (Sensitivity.RESTRICTED, "entities")
    assert sum(found.entities.values()) >= 1


HARMLESS = [
    (r"\b52, 49, 49, 49", "97, 97, 97, 97"),
    (r"4111 1111 1111 1111|\\\\u0034111 1111 1111 1111", "blue"),
    (r"4111111111111111(\.0)?", "7"),
    (r"4111 1111|1111 1111|4111|1111", "blue"),
    (r"@posteo\.example", " the baker"),
]


@pytest.mark.parametrize("position", POSITIONS)
def test_the_same_positions_are_clear_with_harmless_text(
    position: str, classifier: Classifier, kit: Any
) -> None:
    """Else the test above would pass on a classifier that restricts everything."""
    operation, body = POSITIONS[position]
    text = json.dumps(body).replace('"extra": [', '"extra": [97, 98, ')
    for secret, harmless in HARMLESS:
        text = re.sub(secret, harmless, text)
    found = asyncio.run(
        classifier.classify(kit.make_request(json.loads(text), operation=operation))
    )
    assert (found.reason, dict(found.entities)) == ("clear", {})


def part(**fields: Any) -> dict[str, Any]:
    return chat({"role": "user", "content": [{"type": "text", "text": "see"}, fields]})


UNSCANNABLE: dict[str, tuple[Operation, dict[str, Any], str]] = {
    name: (Operation.CHAT, body, reason)
    for name, body, reason in [
        ("image url", part(type="image_url", image_url={"url": "https://h.example/a.png"}), "*"),
        ("image data", part(type="image_url", image_url={"url": "data:image/png;base64,AA"}), "*"),
        ("audio", part(type="input_audio", input_audio={"data": "AA", "format": "wav"}), "*"),
        ("file", part(type="file", file={"file_id": "f-1"}), "*"),
        ("file id alone", chat(attachments=[{"file_id": "f-1"}]), "file"),
        ("unknown part", part(type="hologram"), "part_type"),
        ("part without type", part(text="x"), "part_type"),
        ("part that is a number", chat({"role": "user", "content": [7]}), "part_type"),
        ("past audio", chat({"role": "assistant", "content": None, "audio": {"id": "a"}}), "audio"),
        ("data url", chat(note="see data:text/plain;base64,aGk="), "data_url"),
        ("search tool", chat(tools=[{"type": "file_search"}]), "hosted_tool"),
        ("not JSON", chat(note={1, 2}), "value_type"),
        ("bytes", chat(note=b"x"), "value_type"),
        ("key that is no string", chat(note={1: "x"}), "value_type"),
    ]
} | {
    "tokens": (Operation.COMPLETIONS, {"prompt": [1, 2, 3]}, "token_ids"),
    "token lists": (Operation.COMPLETIONS, {"prompt": [[1, 2], [3]]}, "token_ids"),
    "embedding tokens": (Operation.EMBEDDINGS, {"input": [1, 2]}, "token_ids"),
    "mixed": (Operation.EMBEDDINGS, {"input": ["hi", [1]]}, "token_ids"),
    "previous response": (
        Operation.RESPONSES,
        {"input": "hi", "previous_response_id": "resp_1"},
        "stored",
    ),
    "conversation": (Operation.RESPONSES, {"input": "hi", "conversation": "conv_1"}, "stored"),
    "stored prompt": (Operation.RESPONSES, {"input": "hi", "prompt": {"id": "pmpt_1"}}, "stored"),
    "input image": (
        Operation.RESPONSES,
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
        "*",
    ),
    "item reference": (
        Operation.RESPONSES,
        {"input": [{"type": "item_reference", "id": "msg_1"}]},
        "item_type",
    ),
    "encrypted": (
        Operation.RESPONSES,
        {"input": [{"type": "reasoning", "summary": [], "encrypted_content": "x"}]},
        "encrypted",
    ),
}


@pytest.mark.parametrize("case", UNSCANNABLE)
def test_what_cannot_be_read_is_restricted(case: str, classifier: Classifier, kit: Any) -> None:
    operation, body, what = UNSCANNABLE[case]
    found = asyncio.run(classifier.classify(kit.make_request(body, operation=operation)))
    assert found.restricted
    assert found.reason.startswith("unscannable:")
    assert what in ("*", found.reason.removeprefix("unscannable:"))


def test_a_tool_may_have_a_parameter_called_like_an_opaque_field(
    classifier: Classifier, kit: Any
) -> None:
    body = tool(parameters={"type": "object", "properties": {"file_id": {"type": "string"}}})
    assert asyncio.run(classifier.classify(kit.make_request(body))).reason == "clear"


def test_text_over_the_cap_is_restricted_without_a_scan(scanner: Any, kit: Any) -> None:
    pool = kit.in_process(scanner)
    found = asyncio.run(
        kit.make_classifier(pool).classify(kit.make_request(chat(note="word " * 20_000)))
    )
    assert (found.reason, pool.scanned) == ("over_cap", [])


def test_a_document_of_too_many_values_is_restricted(classifier: Classifier, kit: Any) -> None:
    found = asyncio.run(classifier.classify(kit.make_request(chat(note=[None] * 300_000))))
    assert found.reason == "over_cap"


def test_a_long_base64_run_that_is_no_text_is_restricted(classifier: Classifier, kit: Any) -> None:
    import base64
    import random

    blob = base64.b64encode(random.Random(1).randbytes(3000)).decode()
    found = asyncio.run(classifier.classify(kit.make_request(chat(note=f"here: {blob}"))))
    assert found.restricted
