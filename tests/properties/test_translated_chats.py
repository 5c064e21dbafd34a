"""What goes from OpenAI's chats to another API and back means the same, or does not go there.

The way back is written here from that API's schema, and shares nothing with the gateway's way
there. Both meanings are compared in a form of their own: who says what, in which order.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from gateway.core.operations.chat import CHAT
from gateway.core.operations.dialects import anthropic
from gateway.core.reply import ServerEvent
from gateway.core.types import ServedModel
from gateway.endpoints.connectors.openai.dialects.anthropic.answer import completion
from gateway.endpoints.connectors.openai.dialects.anthropic.events import MessageEvents
from gateway.endpoints.connectors.openai.dialects.anthropic.request import request
from gateway.endpoints.connectors.openai.event_stream import NO_SECRETS, Progress
from tests.anthropic_api import Reply, message_of, problem, stream_events

Document = dict[str, Any]
Drawn = st.SearchStrategy[Any]
WORDS = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
INPUTS = st.dictionaries(WORDS, VALUES, max_size=3)
IDS = st.sampled_from(["call_1", "functions.trams:0", "9f-x", "übung", "call 2"])
NAMES = st.sampled_from(["trams", "stops-2", "a_b"])


class Odd:
    """Strategies of what callers say: where `odd`, of what has no words there, too."""

    def __init__(self, odd: bool) -> None:
        self.odd = odd
        visible = WORDS.filter(lambda text: text.strip() != "")
        known = st.sampled_from(["hello", " x\ty", '{"a": "b"}', "é🚋"])
        self.texts = self.of(visible | known, WORDS | st.sampled_from(["", " "]))
        mark = {"cache_control": {"type": "ephemeral"}}
        self.marks = self.of(
            st.sampled_from([{}, {}, mark]), st.just({"cache_control": {"type": "other"}})
        )
        images = self.of(
            st.sampled_from(["data:image/png;base64,AAAA", "https://a.example/b.png"]),
            st.just("data:image/tiff;base64,AA"),
        )
        pdf = {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}
        files = self.of(st.just(pdf), st.just({"file_id": "file-1"}))
        text = self.texts.map(lambda text: ("text", text))
        image = images.map(lambda url: ("image_url", {"url": url}))
        file = files.map(lambda file: ("file", file))
        audio = st.just(("input_audio", {"data": "AA", "format": "wav"}))
        self.parts = self._marked(self.of(text | image | file, audio))
        self.contents = self.texts | st.lists(self.parts, min_size=1, max_size=3)
        self.instructions = self.texts | st.lists(self._marked(text), min_size=1, max_size=2)
        self.arguments = self.of(INPUTS.map(json.dumps), st.sampled_from(["[1]", "{"])) | st.just(
            ""
        )
        self.names = self.of(NAMES, st.just("a.b"))

    def of(self, usual: Drawn, odd: Drawn) -> Drawn:
        return usual | odd if self.odd else usual

    def _marked(self, parts: Drawn) -> Drawn:
        return st.builds(
            lambda part, mark: {"type": part[0], part[0]: part[1], **mark}, parts, self.marks
        )


@st.composite
def rounds(draw: st.DrawFn, odd: Odd) -> list[Document]:
    """What the user says, and what follows: calls of tools with their results, an answer, both."""
    messages = [{"role": "user", "content": draw(odd.contents), **draw(odd.marks)}]
    if draw(st.booleans()):
        messages.append({"role": "user", "content": draw(odd.contents)})
    ids = draw(st.lists(IDS, unique=True, max_size=2))
    if ids:
        function = st.fixed_dictionaries({"name": odd.names, "arguments": odd.arguments})
        calls = [{"id": each, "type": "function", "function": draw(function)} for each in ids]
        content = draw(st.none() | odd.texts)
        messages.append({"role": "assistant", "content": content, "tool_calls": calls})
        messages += [
            {"role": "tool", "tool_call_id": each, "content": draw(st.just("") | odd.contents)}
            for each in ids
        ]
    if draw(st.booleans()):
        refusal = draw(st.none() | odd.texts)
        messages.append({"role": "assistant", "content": draw(odd.texts), "refusal": refusal})
    return messages


def _name(tool: Any) -> Any:
    return tool["function"]["name"]


@st.composite
def chats(draw: st.DrawFn) -> Document:
    odd = Odd(draw(st.booleans()))
    system = st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer"]), "content": odd.instructions}
    )
    messages: list[Document] = draw(st.lists(system, max_size=2))
    for turns in draw(st.lists(rounds(odd), min_size=1, max_size=3)):
        messages += turns
    if not odd.odd or draw(st.booleans()):
        messages.append({"role": "user", "content": "And now?"})
    if odd.odd and draw(st.booleans()):
        messages.append({"role": "system", "content": "Be brief."})
    tool = st.fixed_dictionaries(
        {"name": odd.names},
        optional={
            "description": WORDS,
            "parameters": st.just(
                {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
            ),
        },
    ).map(lambda function: {"type": "function", "function": function})
    named = {"type": "function", "function": {"name": "trams"}}
    fields: dict[str, Drawn] = {
        "temperature": odd.of(st.sampled_from([None, 0, 0.3, 1]), st.just(1.5)),
        "top_p": odd.of(st.sampled_from([None, 1]), st.just(0.5)),
        "top_k": odd.of(st.sampled_from([None, -1, 40]), st.just("all")),
        "stop": odd.texts | st.lists(odd.texts, max_size=2),
        "max_tokens": st.sampled_from([None, 1, 512]),
        "max_completion_tokens": st.sampled_from([None, 2, 513]),
        "n": odd.of(st.just(1), st.just(2)),
        "seed": odd.of(st.none(), st.integers()),
        "user": WORDS,
        "tools": st.lists(tool, max_size=2, unique_by=_name),
        "tool_choice": st.sampled_from([None, "none", "auto", "required", named]),
        "parallel_tool_calls": st.sampled_from([None, True, False]),
        "reasoning_effort": odd.of(st.sampled_from([None, "none"]), st.sampled_from(EFFORTS)),
        "stream": st.booleans(),
    }
    thinking = st.fixed_dictionaries(
        {"reasoning_effort": st.sampled_from(EFFORTS[1:])},
        optional={key: fields[key] for key in ("stop", "max_tokens", "user", "tools", "stream")},
    )
    return {"messages": messages, **draw(st.fixed_dictionaries({}, optional=fields) | thinking)}


EFFORTS = ["minimal", "low", "high", "max"]


@given(chats())
def test_a_chat_that_goes_there_means_the_same_there(chat: Document) -> None:
    before = copy.deepcopy(chat)
    need = next(iter(anthropic.needs(chat)), None)
    event("stays" if need else "goes")
    if need is None:
        made = request(chat, ServedModel("claude"), bool(chat.get("stream")), json.loads)
        expected = _meaning(chat)
        wrong = problem(made)
        if wrong and not expected["tools"]:  # OpenAI refuses a choice of none as well
            assert "tool_choice" in wrong
        else:
            assert wrong == ""
        assert _meaning_there(made) == expected
    assert chat == before


def _meaning(chat: Document) -> Document:
    ids: dict[str, int] = {}
    said: list[tuple[Any, ...]] = []
    for message in chat["messages"]:
        role = message["role"]
        who = "system" if role == "developer" else role
        first = len(said)
        if role == "tool":
            parts = _parts(message["content"])
            said.append(("result", ids[message["tool_call_id"]], parts))
        else:
            said += [(who, *each) for each in _parts(message["content"])]
        if message.get("refusal"):
            said.append((who, "text", message["refusal"], None))
        for call in message.get("tool_calls") or ():
            ids[call["id"]] = len(ids)
            function = call["function"]
            given = json.loads(function["arguments"] or "{}")
            said.append(("call", ids[call["id"]], function["name"], _exact(given)))
        if (mark := message.get("cache_control")) and len(said) > first:
            said[-1] = (*said[-1][:-1], mark)
    tools = [each["function"] for each in chat.get("tools") or ()]
    choice = chat.get("tool_choice")
    several = chat.get("parallel_tool_calls") is not False
    stop = chat.get("stop") or []
    effort = chat.get("reasoning_effort")
    usual = {"temperature": 1, "top_p": 1, "top_k": -1}
    return {
        "said": said,
        "most": chat.get("max_completion_tokens") or chat.get("max_tokens") or 32_000,
        **{key: chat.get(key) if chat.get(key) is not None else v for key, v in usual.items()},
        "stop": [stop] if isinstance(stop, str) else stop,
        "user": chat.get("user"),
        "tools": [_tool(t["name"], t.get("description"), t.get("parameters"), t) for t in tools],
        "choice": _choice(choice, several, bool(tools)),
        "effort": effort,
        "stream": bool(chat.get("stream")),
    }


def _meaning_there(made: Document) -> Document:
    ids: dict[str, int] = {}
    said: list[tuple[Any, ...]] = []
    said += [("system", *each) for each in _blocks(made.get("system", []))]
    for turn in made["messages"]:
        content = turn["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block["type"] == "tool_use":
                ids[block["id"]] = len(ids)
                said.append(("call", ids[block["id"]], block["name"], _exact(block["input"])))
            elif block["type"] == "tool_result":
                parts = _blocks(block.get("content", []))
                said.append(("result", ids[block["tool_use_id"]], parts))
            else:
                said.append((turn["role"], *_block(block)))
    tools = made.get("tools", [])
    choice = made.get("tool_choice", {"type": "auto"})
    words = {"any": "required"}
    name = choice.get("name") or words.get(choice["type"], choice["type"])
    several = not choice.get("disable_parallel_tool_use", False)
    thinking = made.get("thinking", {"type": ""})["type"]
    effort = made.get("output_config", {}).get("effort")
    assert (thinking == "adaptive") is (effort is not None)
    return {
        "said": said,
        "most": made["max_tokens"],
        "temperature": made.get("temperature", 1),
        "top_p": made.get("top_p", 1),
        "top_k": made.get("top_k", -1),
        "stop": made.get("stop_sequences", []),
        "user": made.get("metadata", {}).get("user_id"),
        "tools": [_tool(t["name"], t.get("description"), t["input_schema"], t) for t in tools],
        "choice": (name, several if name != "none" else True),
        "effort": "none" if thinking == "disabled" else effort,
        "stream": made.get("stream", False),
    }


def _parts(content: Any) -> list[tuple[Any, ...]]:
    if not content:
        return []
    if isinstance(content, str):
        return [("text", content, None)]
    return [(p["type"], _value(p), p.get("cache_control")) for p in content]


def _value(part: Document) -> Any:
    if part["type"] == "text":
        return part["text"]
    if part["type"] == "image_url":
        return part["image_url"]["url"]
    return (part["file"]["file_data"], part["file"].get("filename"))


def _blocks(content: Any) -> list[tuple[Any, ...]]:
    if isinstance(content, str):
        return [("text", content, None)]
    return [_block(block) for block in content]


def _block(block: Document) -> tuple[Any, ...]:
    mark = block.get("cache_control")
    if block["type"] == "text":
        return ("text", block["text"], mark)
    source = block["source"]
    kind = "image_url" if block["type"] == "image" else "file"
    url = source.get("url") or f"data:{source['media_type']};base64,{source['data']}"
    return (kind, url if kind == "image_url" else (url, block.get("title")), mark)


def _tool(name: str, description: Any, schema: Any, tool: Document) -> tuple[Any, ...]:
    shape = _exact({"type": "object", **(schema or {})})
    return (name, description or None, shape, bool(tool.get("strict")))


def _choice(choice: Any, several: bool, tools: bool) -> tuple[str, bool]:
    name = choice["function"]["name"] if isinstance(choice, dict) else choice or "auto"
    if not tools and name in ("none", "auto"):
        name = "auto"  # there is nothing to choose
    return (name, several or not tools or name == "none")


def _exact(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


BLOCKS = st.lists(
    st.one_of(
        WORDS.map(lambda text: {"type": "text", "text": text}),
        WORDS.map(lambda text: {"type": "thinking", "thinking": text, "signature": "s"}),
        st.just({"type": "redacted_thinking", "data": "x"}),
        st.builds(
            lambda name, given: {"type": "tool_use", "id": "x", "name": name, "input": given},
            NAMES,
            INPUTS,
        ),
    ),
    max_size=5,
)


@given(BLOCKS, st.integers(1, 5), st.integers(0, 10**8), st.integers(0, 10**8))
def test_an_answer_means_the_same_whole_and_in_pieces(
    blocks: list[Document], size: int, cached: int, written: int
) -> None:
    usage = {"input_tokens": 3, "cache_read_input_tokens": cached, "output_tokens": written}
    reply = Reply(blocks, "tool_use", usage, piece=size)
    whole = completion(json.dumps(message_of(reply, blocks, "tool_use")).encode(), NO_SECRETS)
    progress, reader = Progress(CHAT), MessageEvents(True)
    chunks = [
        json.loads(data)
        for each in stream_events(reply)
        for data in reader.read(ServerEvent(json.dumps(each).encode()), progress)
    ]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    message = whole["choices"][0]["message"]
    for key in ("content", "reasoning_content"):
        pieces = "".join([delta.get(key) or "" for delta in deltas])
        kind = "text" if key == "content" else "thinking"
        expected = "".join([block[kind] for block in blocks if block["type"] == kind])
        assert pieces == (message.get(key) or "") == expected
    used = [block for block in blocks if block["type"] == "tool_use"]
    arguments = [""] * len(used)
    names = [""] * len(used)
    for call in [call for delta in deltas for call in delta.get("tool_calls", ())]:
        arguments[call["index"]] += call["function"]["arguments"]
        names[call["index"]] += call["function"].get("name", "")
    calls = [call["function"] for call in message.get("tool_calls", ())]
    assert names == [call["name"] for call in calls] == [block["name"] for block in used]
    for block, call, pieces in zip(used, calls, arguments, strict=True):
        assert _exact(json.loads(pieces)) == _exact(block["input"])
        assert _exact(json.loads(call["arguments"])) == _exact(block["input"])
    _check_that_it_can_be_sent_back(message, blocks)
    assert chunks[-1]["usage"] == whole["usage"]
    assert progress.ended
    assert progress.usage is not None
    assert progress.usage.input_tokens == 3 + cached


def _check_that_it_can_be_sent_back(message: Document, blocks: list[Document]) -> None:
    for at, call in enumerate(message.get("tool_calls", ())):
        call["id"] = f"call_{at}"
    turns = [{"role": "user", "content": "hello"}]
    chat = {"messages": [*turns, message, {"role": "user", "content": "And now?"}]}
    text = "".join([block["text"] for block in blocks if block["type"] == "text"])
    speaks = any(block["type"] in ("text", "tool_use") for block in blocks)
    if next(iter(anthropic.needs(chat)), None) is not None:
        assert text.strip() == "" or not speaks
        return
    made = request(chat, ServedModel("claude"), False, json.loads)["messages"][1]["content"]
    thoughts = [block for block in blocks if "thinking" in block["type"]]
    used = [block for block in blocks if block["type"] == "tool_use"]
    expected = [*thoughts, *([{"type": "text", "text": text}] if text else [])]
    assert made[: len(expected)] == expected
    assert [_exact(block["input"]) for block in made[len(expected) :]] == [
        _exact(block["input"]) for block in used
    ]
