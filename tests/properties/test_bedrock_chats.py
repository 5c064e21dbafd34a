"""What goes from OpenAI's chats to Bedrock and back means the same, or does not go there.

Requests are judged by botocore's shapes, and read here from their schema: nothing of it is the
gateway's way there.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from botocore.eventstream import EventStreamBuffer
from hypothesis import event, given
from hypothesis import strategies as st

from gateway.core.operations.chat import CHAT
from gateway.core.operations.dialects import bedrock
from gateway.endpoints.connectors.openai.amazon.events import AmazonEventParser
from gateway.endpoints.connectors.openai.dialects.bedrock.answer import completion
from gateway.endpoints.connectors.openai.dialects.bedrock.events import ConverseEvents
from gateway.endpoints.connectors.openai.dialects.bedrock.request import request
from gateway.endpoints.connectors.openai.event_stream import NO_SECRETS, Progress
from tests import bedrock_api
from tests.bedrock_api import Reply, answer_of, problem, stream_events
from tests.properties.test_translated_chats import INPUTS, NAMES, WORDS, chats

Document = dict[str, Any]
CLAUDE, OTHER = "eu.anthropic.claude-sonnet-4-6", "openai.gpt-oss-120b-1:0"
TRAMS = {"type": "function", "function": {"name": "trams"}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "tram", "schema": SCHEMA}}


@st.composite
def suited(draw: st.DrawFn) -> Document:
    """Chats of which more can be said there."""
    chat = draw(chats())
    for message in chat["messages"]:
        parts = message["content"] if isinstance(message["content"], list) else []
        for part in parts:
            if part["type"] == "image_url" and draw(st.integers(0, 9)) > 0:
                part["image_url"]["url"] = "data:image/jpeg;base64,/9j/"
        if any(part["type"] == "file" for part in parts) and draw(st.integers(0, 9)) > 0:
            parts.append({"type": "text", "text": "Of these."})
    more = {
        "user": st.sampled_from([None, "u-1", "a b", "über"]),
        "metadata": st.sampled_from([None, {}, {"ward": "4 b"}, {"x": "ü"}]),
        "service_tier": st.sampled_from(["auto", "flex", "scale"]),
        "response_format": st.sampled_from([{"type": "text"}, FORMAT, {"type": "json_object"}]),
        "reasoning_effort": st.sampled_from([None, "low", "high", "max"]),
    }
    for key, values in more.items():
        chat.pop(key, None)
        if draw(st.integers(0, 4)) == 0:
            chat[key] = draw(values)
    if not chat.get("tools") and draw(st.integers(0, 9)) > 0:
        chat["tools"] = [TRAMS]
    if draw(st.integers(0, 9)) > 0:
        chat.pop("parallel_tool_calls", None)
        chat.pop("tool_choice", None)
    return chat


@given(suited(), st.sampled_from([CLAUDE, OTHER]))
def test_a_chat_that_goes_to_bedrock_means_the_same_there(chat: Document, model: str) -> None:
    before = copy.deepcopy(chat)
    need = next(iter(bedrock.needs(chat)), None)
    event("stays" if need else "goes")
    if need is None:
        made = json.loads(json.dumps(request(chat, model, json.loads)))
        for operation in ("Converse", "ConverseStream"):
            assert problem(made, operation) == ""
        assert _meaning_there(made, model) == _meaning(chat)
    assert chat == before


def _meaning(chat: Document) -> Document:
    ids: dict[str, int] = {}
    said: list[Any] = []
    for message in chat["messages"]:
        role = {"developer": "system"}.get(message["role"], message["role"])
        content = message.get("content") or []
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        inner: list[Any] = [each for part in parts for each in _part(part)]
        if role == "tool":
            texts = [each for each in inner if each[0] != "mark"]
            own = ("result", ids[message["tool_call_id"]], texts)
            said += [own, *[each for each in inner if each[0] == "mark"]]
        else:
            said += [(role, *each) for each in inner]
        if message.get("refusal"):
            said.append((role, "text", message["refusal"]))
        for call in message.get("tool_calls") or ():
            ids[call["id"]] = len(ids)
            given = json.loads(call["function"]["arguments"] or "{}")
            said.append(("call", ids[call["id"]], call["function"]["name"], _exact(given)))
        if message.get("cache_control"):
            said.append(("mark",))
    get = chat.get
    stop = get("stop") or []
    choice = get("tool_choice") or "auto"
    labels = dict(get("metadata") or {})
    shape = get("response_format")
    return {
        "said": [each[1:] if each[1:2] == ("mark",) else each for each in said],
        "most": get("max_completion_tokens") or get("max_tokens"),
        "temperature": _usual(get("temperature"), 1),
        "top_p": _usual(get("top_p"), 1),
        "top_k": _usual(get("top_k"), -1),
        "stop": [stop] if isinstance(stop, str) else stop,
        "tools": [_tool(each["function"]) for each in get("tools") or ()],
        "choice": choice["function"]["name"] if isinstance(choice, dict) else choice,
        "effort": get("reasoning_effort"),
        "tier": get("service_tier") or "auto",
        "schema": shape["json_schema"]["schema"] if shape == FORMAT else None,
        "labels": labels if get("user") is None else {**labels, "user": get("user")},
    }


def _part(part: Document) -> list[Any]:
    kind = part["type"]
    value = part[kind] if kind == "text" else part[kind].get("url") or part[kind]["file_data"]
    return [(kind, value), *([("mark",)] if part.get("cache_control") else [])]


def _usual(value: Any, usual: Any) -> Any:
    return usual if value is None else value


def _tool(function: Document) -> Any:
    schema = _exact({"type": "object", **(function.get("parameters") or {})})
    return (function["name"], function.get("description") or "", schema)


def _exact(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _meaning_there(made: Document, model: str) -> Document:
    ids: dict[str, int] = {}
    said: list[Any] = []
    for block in made.get("system", []):
        said += _block(block, "system", ids)
    for turn in made["messages"]:
        for block in turn["content"]:
            said += _block(block, turn["role"], ids)
    config = made.get("toolConfig", {"tools": []})
    choice = config.get("toolChoice", {"auto": {}})
    named = {"auto": "auto", "any": "required"}
    output, more = made.get("outputConfig", {}), made.get("additionalModelRequestFields", {})
    inference = made.get("inferenceConfig", {})
    if more.get("thinking"):
        assert model == CLAUDE
        assert output["effort"]
    schema = output.get("textFormat")
    return {
        "said": said,
        "most": inference.get("maxTokens"),
        "temperature": inference.get("temperature", 1),
        "top_p": inference.get("topP", 1),
        "top_k": more.get("top_k", -1),
        "stop": inference.get("stopSequences", []),
        "tools": [
            (s["name"], s.get("description", ""), _exact(s["inputSchema"]["json"]))
            for s in [tool["toolSpec"] for tool in config["tools"]]
        ],
        "choice": choice["tool"]["name"] if "tool" in choice else named[next(iter(choice))],
        "effort": output.get("effort"),
        "tier": made.get("serviceTier", {"type": "auto"})["type"],
        "schema": schema and json.loads(schema["structure"]["jsonSchema"]["schema"]),
        "labels": made.get("requestMetadata", {}),
    }


def _block(block: Document, role: str, ids: dict[str, int]) -> list[Any]:
    if "cachePoint" in block:
        return [("mark",)]
    if "toolUse" in block:
        use = block["toolUse"]
        ids[use["toolUseId"]] = len(ids)
        return [("call", ids[use["toolUseId"]], use["name"], _exact(use["input"]))]
    if "toolResult" in block:
        result = block["toolResult"]
        inner = [_content(each) for each in result["content"]]
        return [("result", ids[result["toolUseId"]], inner)]
    return [(role, *_content(block))]


def _content(block: Document) -> tuple[str, str]:
    if "text" in block:
        return "text", block["text"]
    kind = "image" if "image" in block else "document"
    media = {"png": "image/png", "jpeg": "image/jpeg", "pdf": "application/pdf"}
    held = block[kind]
    url = f"data:{media[held['format']]};base64,{held['source']['bytes']}"
    return ("image_url" if kind == "image" else "file"), url


BLOCKS = st.lists(
    st.one_of(
        WORDS.map(bedrock_api.text),
        st.builds(bedrock_api.thought, WORDS),
        WORDS.map(lambda said: {"reasoningContent": {"reasoningText": {"text": said}}}),
        st.just({"reasoningContent": {"redactedContent": "AAAA"}}),
        st.builds(lambda name, given: bedrock_api.tool_use(name, **given), NAMES,
                  st.dictionaries(st.sampled_from(["a", "b"]), INPUTS, max_size=2)),
    ),
    max_size=5,
)  # fmt: skip


@given(BLOCKS, st.integers(1, 5), st.integers(0, 10**8), st.integers(1, 60))
def test_an_answer_of_bedrock_means_the_same_whole_and_in_messages(
    blocks: list[Document], size: int, cached: int, cut: int
) -> None:
    usage = {"inputTokens": 3, "cacheReadInputTokens": cached, "cacheWriteInputTokens": 4,
             "outputTokens": 9, "totalTokens": 12}  # fmt: skip
    reply = Reply(blocks, "tool_use", usage, piece=size)
    whole = completion(json.dumps(answer_of(reply)).encode(), "m")
    progress, reader = Progress(CHAT), ConverseEvents(True, "m")
    parser = AmazonEventParser(1 << 20, NO_SECRETS)
    sent = b"".join(bedrock_api.event(*each) for each in stream_events(reply))
    buffer = EventStreamBuffer()
    buffer.add_data(sent)
    assert len(list(buffer)) == len(stream_events(reply))
    datas: list[bytes] = []
    for at in range(0, len(sent), cut):
        assert not progress.ended
        parser.feed(sent[at : at + cut])
        while (read := parser.next()) is not None:
            datas += reader.read(read, progress)
    assert progress.ended
    assert parser.held == 0
    chunks = [json.loads(data) for data in datas]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    message = whole["choices"][0]["message"]
    for key in ("content", "reasoning_content"):
        assert "".join([d.get(key) or "" for d in deltas]) == (message.get(key) or "")
    used = [block["toolUse"] for block in blocks if "toolUse" in block]
    arguments = [""] * len(used)
    for call in [call for delta in deltas for call in delta.get("tool_calls", ())]:
        arguments[call["index"]] += call["function"]["arguments"]
    calls = [call["function"] for call in message.get("tool_calls", ())]
    for use, call, pieces in zip(used, calls, arguments, strict=True):
        assert _exact(json.loads(pieces)) == _exact(use["input"])
        assert _exact(json.loads(call["arguments"])) == _exact(use["input"])
    assert chunks[-1]["usage"] == whole["usage"]
    assert whole["usage"]["prompt_tokens"] == 3 + 4 + cached
    _check_that_thoughts_can_be_sent_back(message, deltas, blocks)


def _check_that_thoughts_can_be_sent_back(
    message: Document, deltas: list[Document], blocks: list[Document]
) -> None:
    joined: dict[int, Document] = {}
    for piece in [each for delta in deltas for each in delta.get("thinking_blocks", ())]:
        block = joined.setdefault(piece.pop("index"), {"type": piece.pop("type")})
        for key, value in piece.items():
            block[key] = block.get(key, "") + value
    thoughts = [block for block in blocks if "reasoningContent" in block]
    spoken = [t for t in thoughts if t["reasoningContent"].get("reasoningText") != {"text": ""}]
    turns = [{"role": "user", "content": "hello"}]
    for pieces in (message.get("thinking_blocks"), list(joined.values())):
        answer = {"role": "assistant", "content": "So.", "thinking_blocks": pieces}
        chat = {"messages": [*turns, answer, *turns]}
        assert list(bedrock.needs(chat)) == []
        made = request(chat, CLAUDE, json.loads)["messages"][1]["content"]
        assert made[:-1] == (thoughts if pieces == message.get("thinking_blocks") else spoken)
