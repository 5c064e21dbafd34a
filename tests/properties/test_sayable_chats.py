"""A generated chat is refused before anything is sent, or the API takes it and it means the same
there. Each API's own types say what it takes; the meaning is compared in a form of its own."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from gateway.core.operations.chat import CHAT
from gateway.core.operations.dialects import cohere, gemini
from gateway.core.operations.spec import CapabilityNeed
from gateway.core.types import DocumentCall, ServedModel
from gateway.endpoints.connectors.openai.dialects.cohere.request import request as to_cohere
from gateway.endpoints.connectors.openai.dialects.gemini.request import request as to_gemini
from gateway.scheduling.routing.needs import needs
from tests import cohere_api, gemini_api

Document = dict[str, Any]
Drawn = st.SearchStrategy[Any]
Unsaid = Callable[[Document], Iterable[CapabilityNeed]]
MODEL = ServedModel("m")
ODD = st.sampled_from([None, 0, "", [], {}, ["x"], {"a": 1}, "x", 7, True, -1.5])
SAID = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6) | st.sampled_from(["{}", " "])
PNG = "data:image/png;base64,AAAA"
PDF: Document = {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}
SIGNED: Document = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
WHOLE: Document = {
    "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
    "additionalProperties": False,
}  # fmt: skip
ODD_SCHEMAS = st.sampled_from(
    [
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}},
        {"type": "object", "properties": {"a": {"const": "b"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"const": True}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"oneOf": []}}, "required": ["a"]},
        {"type": "object", "required": ["a"], "properties": {"a": {"format": ["date"]}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
    ]
)
NAMED: Document = {"type": "function", "function": {"name": "trams"}}
GEMINI: dict[str, list[Any]] = {
    "urls": [PNG, "https://a.example/b.webp?c=d", "gs://a/b.jpg"],
    "parts": ["image_url", "input_audio", "file"],
    "result_parts": [],
    "extra": [{}, SIGNED],
    "temperature": [0, 0.5, 2],
    "top_p": [0, 0.5, 1],
    "top_k": [-1, 0, 40, 1000],
    "presence_penalty": [-2, 0, 0.5],
    "frequency_penalty": [-2, 0, 1.5],
    "n": [1, 2, 8],
    "seed": [0, 1 << 30],
    "logprobs": [True, False],
    "top_logprobs": [0, 3, 20],
    "reasoning_effort": ["none", "minimal", "high"],
}
COHERE: dict[str, list[Any]] = {
    "urls": [PNG, "https://a.example/b"],
    "parts": ["image_url"],
    "extra": [{}],
    "temperature": [0, 0.5, 2],
    "top_p": [0.01, 0.5, 0.99],
    "top_k": [-1, 0, 40, 500],
    "presence_penalty": [0, 0.5, 1],
    "frequency_penalty": [0, 0.5, 1],
    "n": [1],
    "seed": [0, 1 << 40],
    "reasoning_effort": ["none", "high"],
}
GEMINI_NUMBERS = {
    "temperature": "temperature", "top_p": "topP", "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty", "seed": "seed", "n": "candidateCount",
    "max_tokens": "maxOutputTokens",
}  # fmt: skip
COHERE_NUMBERS = {
    name: name
    for name in ("temperature", "presence_penalty", "frequency_penalty", "seed", "max_tokens")
} | {"top_p": "p"}
FIELDS = [key for key in GEMINI if key not in ("urls", "parts", "result_parts", "extra")]


def _name(tool: Any) -> str:
    return str(tool["function"]["name"])


class Talk:
    """Strategies of what callers say to an API: where `odd`, also of what it has no words for."""

    def __init__(self, usual: dict[str, list[Any]], odd: bool) -> None:
        self.odd = odd
        self.usual = usual
        self.extra = self.of(usual["extra"], SIGNED, {"extra_content": {"a": 1}})
        self.names = self.of(["trams", "stops-2"], "9", "\u00e9", None, [])
        arguments = self.of(['{"a": [1]}', ""], "[1]", "{", None)
        self.functions = st.fixed_dictionaries({"name": self.names, "arguments": arguments})
        schemas = st.just(WHOLE) | ODD_SCHEMAS if odd else st.just(WHOLE)
        function = st.fixed_dictionaries(
            {"name": self.names}, optional={"description": SAID, "parameters": schemas}
        )
        self.tools = st.lists(
            function.map(lambda made: {"type": "function", "function": made}),
            min_size=1,
            max_size=2,
            unique_by=_name,
        )
        self.shapes = schemas.map(
            lambda schema: {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
        )

    def of(self, usual: list[Any], *odd: Any) -> Drawn:
        return st.sampled_from([*usual, *odd] if self.odd else usual)

    def anything_or(self, usual: Drawn) -> Drawn:
        return usual | ODD if self.odd else usual

    def content(self, *kinds: str) -> Drawn:
        images = {"url": self.of(self.usual["urls"], "http://a/b.png", "data:image/x;base64,A")}
        detail = {"detail": self.of(["auto", "high"], "low", "x")}
        values: dict[str, Drawn] = {
            "text": SAID,
            "refusal": SAID,
            "image_url": st.fixed_dictionaries(images, optional=detail),
            "input_audio": self.of([{"data": "AAAA", "format": "wav"}], {"data": "A"}),
            "file": self.of([PDF], {"file_id": "f"}),
        }
        offered = ["text", *(values if self.odd else kinds)]
        parts = st.one_of([self._part(kind, values[kind]) for kind in offered])
        return self.anything_or(SAID | st.lists(parts, min_size=1, max_size=2))

    def _part(self, kind: str, values: Drawn) -> Drawn:
        return values.map(lambda value: {"type": kind, kind: value})


@st.composite
def turns(draw: st.DrawFn, talk: Talk, at: int) -> list[Document]:
    messages = [{"role": "user", "content": draw(talk.content(*talk.usual["parts"]))}]
    ids = [f"call_{at}_{n}" for n in range(draw(st.integers(0, 2)))]
    if ids:
        calls = [
            {"id": own, "type": "function", "function": draw(talk.functions), **draw(talk.extra)}
            for own in ids
        ]
        spoken = draw(st.none() | talk.content())
        thought = draw(st.none() | SAID)
        messages.append(
            {"role": "assistant", "content": spoken, "tool_calls": calls,
             "reasoning_content": thought}
        )  # fmt: skip
        answered = ids if draw(st.booleans()) or not talk.odd else ids[:1]
        messages += [
            {"role": "tool", "tool_call_id": own, "content": draw(talk.content())}
            for own in answered
        ]
    if draw(st.booleans()):
        answer = draw(talk.content("refusal"))
        messages.append({"role": "assistant", "content": answer, **draw(talk.extra)})
    return messages


@st.composite
def chats(draw: st.DrawFn, usual: dict[str, list[Any]]) -> Document:
    talk = Talk(usual, draw(st.booleans()))
    system = st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer"]), "content": talk.content()}
    )
    messages: list[Document] = draw(st.lists(system, max_size=2))
    for at in range(draw(st.integers(1, 2))):
        messages += draw(turns(talk, at))
    if not talk.odd or draw(st.booleans()):
        messages.append({"role": "user", "content": "And now?"})
    fields = {name: talk.of(usual.get(name, [None]), *GEMINI[name], -3, 99) for name in FIELDS}
    stops = SAID | st.lists(SAID, max_size=5)
    fields |= {
        "stop": stops | st.lists(SAID, min_size=6, max_size=6) if talk.odd else stops,
        "max_tokens": st.sampled_from([1, 512]),
        "parallel_tool_calls": talk.of([True], False),
        "stream": st.booleans(),
    }
    optional = {name: talk.anything_or(values) for name, values in fields.items()}
    chat = {"messages": messages, **draw(st.fixed_dictionaries({}, optional=optional))}
    if draw(st.booleans()):
        chat["tools"] = draw(talk.tools)
        choices: list[Any] = ["none", "auto", "required", None]
        if any(tool["function"]["name"] == "trams" for tool in chat["tools"]):
            choices.append(NAMED)
        chat["tool_choice"] = draw(talk.of(choices, NAMED))
    if not chat.get("tools") or talk.odd:
        chat["response_format"] = draw(talk.of([None, {"type": "json_object"}]) | talk.shapes)
    return chat


def first_need(chat: Document, offered: frozenset[str], unsaid: Unsaid) -> CapabilityNeed | None:
    """What keeps a chat from an API: a capability that it has not, or what it has no words for."""
    lacking = [need for need in needs(DocumentCall(CHAT, chat)) if need.capability not in offered]
    return next(iter([*lacking, *unsaid(chat)]), None)


def kept(chat: Document) -> list[str]:
    """Texts of a chat that stand as they are in any API: of messages, calls and results."""
    said = []
    for message in chat["messages"]:
        stated = message["content"]
        said += [stated] if isinstance(stated, str) else [p.get("text") for p in stated or ()]
        said += [call["function"]["name"] for call in message.get("tool_calls") or ()]
        said += [message.get("reasoning_content"), message.get("tool_call_id")]
    said += [tool["function"].get("description") for tool in chat.get("tools") or ()]
    return [each for each in said if each]


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in strings(each)]
    if isinstance(value, list):
        return [text for each in value for text in strings(each)]
    return [value] if isinstance(value, str) else []


@given(chats(GEMINI))
def test_what_goes_to_gemini_is_taken_there_with_all_its_texts(chat: Document) -> None:
    before = copy.deepcopy(chat)
    need = first_need(chat, gemini.OFFERED, gemini.needs)
    event(f"stays for {need.field.partition('[')[0]}" if need else "goes")
    if need is None:
        made = to_gemini(chat, MODEL, json.loads)
        assert gemini_api.problem(made) == ""
        assert set(kept(chat)) <= set(strings(made))
        _same_numbers(chat, made.get("generationConfig", {}), GEMINI_NUMBERS)
    assert chat == before


@given(chats(COHERE))
def test_what_goes_to_cohere_is_taken_there_with_all_its_texts(chat: Document) -> None:
    before = copy.deepcopy(chat)
    need = first_need(chat, cohere.OFFERED, cohere.needs)
    event(f"stays for {need.field.partition('[')[0]}" if need else "goes")
    if need is None:
        made = to_cohere(chat, MODEL, bool(chat.get("stream")))
        assert cohere_api.problem(made) == ""
        told = strings(made)
        forced = isinstance(chat.get("tool_choice"), dict)
        assert all(each in told or forced or _within(each, told) for each in kept(chat))
        _same_numbers(chat, made, COHERE_NUMBERS)
    assert chat == before


def _within(text: str, told: list[str]) -> bool:
    """Parts of a plan are one text."""
    return any(text in each for each in told)


def _same_numbers(chat: Document, made: Document, names: dict[str, str]) -> None:
    for name, other in names.items():
        assert made.get(other) == chat.get(name)
