"""What goes from a caller of the Messages API through a chat to an API means the same, or does not
go there.

Both ends of the way to Anthropic's own API are messages, so their normal forms are compared. On the
way to OpenAI's API, what is sent is taken by an API written from its schema, and every word of the
caller's stands in it.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from gateway.core.operations.dialects import anthropic
from gateway.core.operations.dialects.openai import spoken
from gateway.core.types import ServedModel
from gateway.endpoints.connectors.openai.dialects.anthropic.request import request
from gateway.server.dialects.anthropic.answers import message
from gateway.server.dialects.anthropic.events import MessageWriter
from gateway.server.dialects.anthropic.requests import chat
from tests import chat_api
from tests.anthropic_api import problem

Document = dict[str, Any]
WORDS = st.text(st.characters(codec="utf-8"), max_size=9).map(lambda text: f"w{text}")
INPUTS = st.dictionaries(WORDS, st.integers() | WORDS | st.lists(st.booleans()), max_size=2)
MARKS = st.sampled_from([{}, {}, {"cache_control": {"type": "ephemeral", "ttl": "1h"}}])


def made(kind: str, marked: bool = True, **fields: Any) -> st.SearchStrategy[Document]:
    values = {
        name: each if isinstance(each, st.SearchStrategy) else st.just(each)
        for name, each in fields.items()
    }
    block = st.fixed_dictionaries({"type": st.just(kind), **values})
    return st.builds(lambda block, mark: {**block, **mark}, block, MARKS) if marked else block


TEXTS = made("text", text=WORDS)
PNG = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}
PICTURES = made("image", source=st.sampled_from([PNG, {"type": "url", "url": "https://a.example"}]))
SOURCES = st.sampled_from([PDF, {"type": "url", "url": "https://a.example/b.pdf"}]) | WORDS.map(
    lambda text: {"type": "text", "media_type": "text/plain", "data": text}
)
PAPERS = made("document", source=SOURCES) | made("document", source=SOURCES, title=WORDS)
CONTEXTS = made("document", source=SOURCES, title=WORDS, context=WORDS)
PARTS = TEXTS | PICTURES | PAPERS | CONTEXTS
THOUGHTS = made("thinking", marked=False, thinking=WORDS, signature="c2ln") | made(
    "redacted_thinking", marked=False, data="x"
)


@st.composite
def rounds(draw: st.DrawFn, number: int) -> list[Document]:
    """What the user says, an answer with calls of tools, and their results."""
    content = draw(WORDS | st.lists(PARTS, min_size=1, max_size=3))
    ids = [f"toolu_{number}_{at}" for at in range(draw(st.integers(0, 2)))]
    calls = [draw(made("tool_use", id=own, name="trams", input=INPUTS)) for own in ids]
    said = draw(st.lists(TEXTS | THOUGHTS, min_size=not calls, max_size=3))
    answer = draw(st.permutations([*said, *calls])) if draw(st.booleans()) else [*said, *calls]
    results = [
        draw(
            made("tool_result", tool_use_id=own, content=WORDS | st.lists(PARTS, min_size=1))
            | made("tool_result", tool_use_id=own, is_error=True, content=WORDS)
        )
        for own in ids
    ]
    more = draw(st.lists(PARTS, min_size=not results, max_size=1))
    return [
        {"role": "user", "content": content},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": [*results, *more]},
    ]


@st.composite
def bodies(draw: st.DrawFn) -> Document:
    turns: list[Document] = []
    for number in range(draw(st.integers(1, 2))):
        turns += draw(rounds(number))
    tool = {"name": "trams", "input_schema": {"type": "object", "properties": {"a": {}}}}
    schema = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    effort = st.sampled_from(["low", "xhigh", "max"])
    shape = st.just({"type": "json_schema", "schema": schema})
    alone = st.booleans()
    choice = st.sampled_from(["auto", "any", "none"]).flatmap(
        lambda kind: (
            st.just({"type": kind})
            if kind == "none"
            else alone.map(lambda alone: {"type": kind, "disable_parallel_tool_use": alone})
        )
    )
    fields: dict[str, st.SearchStrategy[Any]] = {
        "system": WORDS | st.lists(TEXTS, min_size=1, max_size=2),
        "temperature": st.sampled_from([0, 0.3]),
        "stop_sequences": st.lists(WORDS, max_size=2),
        "metadata": WORDS.map(lambda own: {"user_id": own}),
        "service_tier": st.sampled_from(["auto", "standard_only"]),
        "cache_control": st.just({"type": "ephemeral"}),
        "stream": st.booleans(),
        "output_config": st.fixed_dictionaries({}, optional={"format": shape, "effort": effort}),
        "tool_choice": choice | st.just({"type": "tool", "name": "trams"}),
    }
    thinking = st.sampled_from(
        [
            {"type": "adaptive"}, {"type": "disabled"}, {"type": "between_tools"},
            {"type": "adaptive", "display": "omitted"}, {"type": "enabled", "budget_tokens": 2000},
        ]
    )  # fmt: skip
    body = {
        "model": "m", "max_tokens": 9, "messages": turns,
        "tools": [{**tool, **draw(MARKS), "description": draw(WORDS), "strict": False}],
        **draw(st.fixed_dictionaries({}, optional=fields)),
    }  # fmt: skip
    if draw(st.booleans()):
        body["thinking"] = draw(thinking)
        body.pop("temperature", None)
        body.pop("tool_choice", None)
    return body


@given(bodies())
def test_a_message_that_goes_to_its_own_api_means_the_same_there(body: Document) -> None:
    before = copy.deepcopy(body)
    document, _ = chat(body)
    assert body == before
    assert list(anthropic.needs(document)) == []
    sent = request(document, ServedModel("m"), bool(body.get("stream")), json.loads)
    assert normal(sent) == normal(body)
    assert problem(sent) == problem({**body, "messages": normal(body)["messages"]})


def normal(body: Document) -> Document:
    """The same for all that mean the same."""
    form = {key: value for key, value in body.items() if value not in (None, False, [], {})}
    turns: list[Document] = []
    for turn in body["messages"]:
        if turns and turns[-1]["role"] == turn["role"]:
            turns[-1]["content"] += _blocks(turn["content"])
        else:
            turns.append({"role": turn["role"], "content": _blocks(turn["content"])})
    form["messages"] = turns
    form["tools"] = [{key: v for key, v in t.items() if v is not False} for t in body["tools"]]
    if "system" in form:
        form["system"] = _blocks(form["system"])
    if choice := form.get("tool_choice"):
        form["tool_choice"] = {key: v for key, v in choice.items() if v is not False}
    return form


def _blocks(content: Any) -> list[Document]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [
        {**block, "content": _blocks(block.get("content", ""))}
        if block["type"] == "tool_result"
        else block
        for block in content
    ]


@given(bodies())
def test_a_message_that_goes_to_openai_s_api_is_taken_there_word_for_word(body: Document) -> None:
    document, translation = chat(body)
    event("stays" if translation.unsaid else "goes")
    sent, _ = spoken(document)
    if translation.unsaid:
        return
    assert chat_api.problem(sent) == ""
    written = _strings(sent)
    for word in _words(body["messages"]) + _words(body.get("system", "")):
        assert any(word in text for text in written)


def _strings(value: Any) -> list[str]:
    """All texts, and those of the arguments of calls."""
    if isinstance(value, dict):
        inner = [json.loads(each) if key == "arguments" else each for key, each in value.items()]
        return [text for each in inner for text in _strings(each)]
    if isinstance(value, list):
        return [text for each in value for text in _strings(each)]
    return [value] if isinstance(value, str) else []


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if value.startswith("w") else []
    if isinstance(value, dict):
        return [word for item in value.values() for word in _words(item)]
    return [word for item in value for word in _words(item)] if isinstance(value, list) else []


CALLS = st.lists(INPUTS, max_size=3)


@given(WORDS | st.just(""), WORDS | st.just(""), CALLS, st.integers(1, 4), st.randoms())
def test_an_answer_is_the_same_message_whole_and_in_pieces(
    thought: str, text: str, calls: list[Document], size: int, order: Any
) -> None:
    """Also where the pieces of calls come side by side."""
    tools = [chat_api.function_call("trams", f"c{at}", **{}) for at in range(len(calls))]
    for tool, given_input in zip(tools, calls, strict=True):
        tool["function"]["arguments"] = json.dumps(given_input)
    said: Document = {"reasoning_content": thought, "content": text, "tool_calls": tools}
    reply = chat_api.ChatReply(said, "tool_calls" if tools else "stop", piece=size)
    whole: Document = {"id": "chatcmpl-1", "model": "gpt-test", "usage": reply.usage}
    whole["choices"] = [{"message": said, "finish_reason": reply.finish_reason}]
    chunks = chat_api.chunks(reply, usage=True)
    writer = MessageWriter((), "id")
    written = [writer.chunk(json.dumps(each).encode()) for each in _side_by_side(chunks, order)]
    events = [
        json.loads(each.partition(b"data: ")[2])
        for each in b"".join([*written, writer.last()]).split(b"\n\n")[:-1]
    ]
    assert put_together(events) == json.loads(message(json.dumps(whole).encode(), ()))


def _side_by_side(chunks: list[Document], order: Any) -> list[Document]:
    """The same with the pieces of its calls in another order, each call's own as before."""
    at = [n for n, c in enumerate(chunks) if c["choices"] and "tool_calls" in _delta(c)]
    heads = [n for n in at if "id" in _delta(chunks[n])["tool_calls"][0]]
    pieces = [chunks[n] for n in at if n not in heads]
    calls = [_delta(piece)["tool_calls"][0]["index"] for piece in pieces]
    order.shuffle(calls)
    own = {call: iter([p for p in pieces if _delta(p)["tool_calls"][0]["index"] == call])
           for call in calls}  # fmt: skip
    if not at:
        return chunks
    mixed = [chunks[n] for n in heads] + [next(own[call]) for call in calls]
    return [*chunks[: at[0]], *mixed, *chunks[at[-1] + 1 :]]


def _delta(chunk: Document) -> Document:
    delta: Document = chunk["choices"][0]["delta"]
    return delta


def put_together(events: list[Document]) -> Document:
    """As the documentation of streams says; blocks come one after the other."""
    assert events[0]["type"] == "message_start"
    assert events[-1] == {"type": "message_stop"}
    made: Document = events[0]["message"]
    opened: Document | None = None
    for each in events[1:-1]:
        match each:
            case {"type": "content_block_start", "index": at, "content_block": block}:
                assert opened is None
                assert at == len(made["content"])
                opened = {**block, "json": ""}
            case {"type": "content_block_delta", "index": at, "delta": delta}:
                assert opened is not None
                assert at == len(made["content"])
                key = {"text_delta": "text", "thinking_delta": "thinking"}.get(delta["type"])
                if key:
                    opened[key] += delta[key]
                else:
                    opened["json"] += delta["partial_json"]
            case {"type": "content_block_stop"}:
                assert opened is not None
                given_input = opened.pop("json")
                if opened["type"] == "tool_use":
                    opened["input"] = json.loads(given_input or "{}")
                made["content"].append(opened)
                opened = None
            case {"type": "message_delta", "delta": end, "usage": usage}:
                assert opened is None
                made |= {**end, "usage": usage}
    return made
