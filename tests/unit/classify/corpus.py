"""Where words can stand in an OpenAI call, and what of a call is no text (C2, C3).

`positions` puts the same words into each place, so that a test can say a card number there and,
in a second call, something harmless.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec

Body = tuple[OperationSpec, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Said:
    """Four words, and the number to use where a position takes numbers."""

    text: str
    number: int

    @property
    def escaped(self) -> str:
        return "".join(f"\\u{ord(c):04x}" for c in self.text)

    @property
    def code_points(self) -> list[int]:
        return [ord(c) for c in self.text]


CARD = Said("4111 1111 1111 1111", 4111111111111111)
_HI = {"role": "user", "content": "hi"}


def harmless(number: int) -> Said:
    """Words that no other number gives."""
    return Said(f"teal{number} blue{number} pink{number} gray{number}", 7_000_000 + number)


def chat(*messages: Any, **fields: Any) -> Body:
    return CHAT, {"messages": [_HI, *messages], **fields}


def part(**fields: Any) -> Body:
    return chat({"role": "user", "content": [{"type": "text", "text": "see"}, fields]})


def thought(encrypted: Any) -> Body:
    item = {"type": "reasoning", "summary": [], "encrypted_content": encrypted}
    return RESPONSES, {"input": [item]}


def tool(**function: Any) -> Body:
    return chat(tools=[{"type": "function", "function": {"name": "f", **function}}])


def positions(said: Said) -> dict[str, Body]:
    sentence = f"my card is {said.text}"
    return {
        **_messages(sentence, said),
        **_fields(sentence, said),
        **_prompts(sentence),
        **_responses(sentence, said),
    }


def _messages(sentence: str, said: Said) -> dict[str, Body]:
    words = said.text.split()
    return {
        "user text": chat({"role": "user", "content": sentence}),
        "earlier turn": chat({"role": "user", "content": sentence}, _HI),
        "system": chat({"role": "system", "content": sentence}),
        "developer": chat({"role": "developer", "content": sentence}),
        "assistant": chat({"role": "assistant", "content": sentence}),
        "tool result": chat({"role": "tool", "tool_call_id": "1", "content": sentence}),
        "tool result parts": chat(
            {"role": "tool", "tool_call_id": "1", "content": _parts(sentence)}
        ),
        "tool call arguments": chat(_call(json.dumps({"card": said.text}))),
        "escaped arguments": chat(_call(f'{{"card": "{said.escaped}"}}')),
        "arguments as a number": chat(_call(json.dumps({"card": said.number}))),
        "tool call id": chat({"role": "tool", "tool_call_id": said.text, "content": "x"}),
        "name": chat({"role": "user", "name": said.text, "content": "x"}),
        "text part": chat({"role": "user", "content": _parts(sentence)}),
        "refusal part": chat(
            {"role": "assistant", "content": [{"type": "refusal", "refusal": sentence}]}
        ),
        "split over messages": chat(
            {"role": "user", "content": "My card: " + " ".join(words[:2])},
            {"role": "user", "content": " ".join(words[2:])},
        ),
    }  # fmt: skip


def _fields(sentence: str, said: Said) -> dict[str, Body]:
    schema = {"name": "s", "schema": {"type": "object", "const": said.text}}
    return {
        "tool description": tool(description=sentence),
        "tool schema enum": tool(parameters={"properties": {"x": {"enum": [said.text]}}}),
        "tool schema key": tool(parameters={"properties": {said.text: {"type": "string"}}}),
        "user": chat(user=said.text),
        "safety identifier": chat(safety_identifier=said.text),
        "metadata value": chat(metadata={"note": said.text}),
        "metadata key": chat(metadata={said.text: "note"}),
        "stop": chat(stop=[said.text]),
        "response format": chat(response_format={"type": "json_schema", "json_schema": schema}),
        "prediction": chat(prediction={"type": "content", "content": sentence}),
        "number": chat(metadata={"card": said.number}),
        "float": chat(metadata={"card": float(said.number)}),
        "unknown field": chat(extra_body={"deep": [{"er": sentence}]}),
        "unknown key": chat(extra_body={sentence: 1}),
        "code points": chat(extra=said.code_points),
        "split over list items": chat(metadata={"card": said.text.split()}),
    }


def _prompts(sentence: str) -> dict[str, Body]:
    completions, embeddings = COMPLETIONS, EMBEDDINGS
    return {
        "completions prompt": (completions, {"prompt": sentence}),
        "completions prompt list": (completions, {"prompt": ["hi", sentence]}),
        "completions suffix": (completions, {"prompt": "hi", "suffix": sentence}),
        "completions user": (completions, {"prompt": "hi", "user": sentence}),
        "embeddings input": (embeddings, {"input": sentence}),
        "embeddings input list": (embeddings, {"input": ["hi", "there", sentence]}),
        "embeddings user": (embeddings, {"input": "hi", "user": sentence}),
    }


def _responses(sentence: str, said: Said) -> dict[str, Body]:
    def items(*given: dict[str, Any]) -> Body:
        return RESPONSES, {"input": list(given)}

    said_before = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": sentence}],
    }
    arguments = json.dumps({"a": said.text})
    tools = [{"type": "function", "name": "f", "description": sentence}]
    return {
        "responses input": (RESPONSES, {"input": sentence}),
        "responses instructions": (
            RESPONSES,
            {"input": "hi", "instructions": sentence},
        ),
        "responses message": items(
            {"role": "user", "content": [{"type": "input_text", "text": sentence}]}
        ),
        "responses history": items(said_before, _HI),
        "responses call": items(
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": arguments}
        ),
        "responses call output": items(
            {"type": "function_call_output", "call_id": "1", "output": sentence}
        ),
        "responses tool": (RESPONSES, {"input": "hi", "tools": tools}),
        "responses metadata": (RESPONSES, {"input": "hi", "metadata": {"a": sentence}}),
    }


def _call(arguments: str) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    }


def _parts(sentence: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": sentence}]


# What nobody here has read: (body, the reason behind `unscannable:`). None of it holds a finding.
UNREADABLE: dict[str, tuple[Body, str]] = {
    "image url": (part(type="image_url", image_url={"url": "https://h.example/a.png"}), "image"),
    "image data": (part(type="image_url", image_url={"url": "data:image/png;base64,AA"}), "image"),
    "audio": (part(type="input_audio", input_audio={"data": "AA", "format": "wav"}), "audio"),
    "file": (part(type="file", file={"file_id": "f-1"}), "file"),
    "file id alone": (chat(attachments=[{"file_id": "f-1"}]), "file"),
    "unknown part": (part(type="hologram"), "part_type"),
    "part without type": (part(text="x"), "part_type"),
    "part that is a number": (chat({"role": "user", "content": [7]}), "part_type"),
    "past audio": (chat({"role": "assistant", "content": None, "audio": {"id": "a"}}), "audio"),
    "data url": (chat(note="see data:text/plain;base64,aGk="), "data_url"),
    "search tool": (chat(tools=[{"type": "file_search"}]), "hosted_tool"),
    "web search": (chat(web_search_options={}), "hosted_tool"),
    "cached content": (chat(extra_body={"cached_content": "c/1"}), "stored"),
    "tokens": ((COMPLETIONS, {"prompt": [1, 2, 3]}), "token_ids"),
    "token lists": ((COMPLETIONS, {"prompt": [[1, 2], [3]]}), "token_ids"),
    "embedding tokens": ((EMBEDDINGS, {"input": [1, 2]}), "token_ids"),
    "previous response": (
        (RESPONSES, {"input": "hi", "previous_response_id": "resp_1"}),
        "stored",
    ),
    "conversation": ((RESPONSES, {"input": "hi", "conversation": "conv_1"}), "stored"),
    "stored prompt": ((RESPONSES, {"input": "hi", "prompt": {"id": "p"}}), "stored"),
    "input image": (
        (
            RESPONSES,
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
        ),
        "image",
    ),
    "part whose type is no string": (part(type={"a": 1}, text="x"), "part_type"),
    "item whose type is no string": ((RESPONSES, {"input": [{"type": []}]}), "item_type"),
    "item reference": (
        (RESPONSES, {"input": [{"type": "item_reference", "id": "msg_1"}]}),
        "item_type",
    ),
    "encrypted": (thought("x"), "encrypted"),
    "encrypted behind what begins as a signature": (thought("thinking:c2ln x"), "encrypted"),
    "encrypted in another shape": (thought(["thinking:c2ln"]), "encrypted"),
}
