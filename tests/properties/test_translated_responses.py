"""What goes from Responses to chats and back means the same, or does not go there.

Both meanings are read here from the published schemas, and compared in a form of their own: who
thinks, says and calls what, in which order. A chat holds a turn of the assistant in one message,
where texts stand before calls.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from gateway.core.operations.dialects.responses import AS_CHAT
from gateway.core.types import Usage
from gateway.endpoints.connectors.openai.responses.writer import ResponseWriter
from tests.chat_only_api import Reply, call, chunks_of, completion, problem

Document = dict[str, Any]
Drawn = st.SearchStrategy[Any]
WORDS: Drawn = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
NAMES = st.sampled_from(["trams", "stops-2", "a_b"])
SIGNED = st.sampled_from(["thinking:c2ln", "redacted_thinking:xx=="])
SCHEMAS: Drawn = st.sampled_from([{}, {"type": "object", "properties": {"a": {"type": "string"}}}])
IMAGE = {"type": "input_image", "detail": "low", "image_url": "https://a.example/b.png"}
FILE = {"type": "input_file", "file_data": "data:application/pdf;base64,AA", "filename": "a.pdf"}
ODD_ITEMS: list[Document] = [
    {"type": "item_reference", "id": "msg_1"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    {"type": "reasoning", "id": "rs_68af", "summary": []},
    {"type": "reasoning", "id": "rs_68af", "summary": [], "encrypted_content": "gAAAA"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
    {"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]},
    {"role": "user", "content": [{"type": "input_file", "file_url": "https://a.example/a.pdf"}]},
]
ODD_FIELDS: list[Document] = [
    {"store": True}, {"truncation": "auto"}, {"previous_response_id": "resp_1"},
    {"tools": [{"type": "web_search"}]}, {"reasoning": {"summary": "concise"}},
    {"include": ["message.output_text.logprobs"]}, {"context_management": []},
]  # fmt: skip


def texts(kind: str) -> Drawn:
    """A content of texts."""
    part = WORDS.map(lambda text: {"type": kind, "text": text})
    return WORDS | st.lists(part, min_size=1, max_size=3)


THOUGHTS: Drawn = st.builds(
    lambda text, signed: {
        "type": "reasoning", "id": "rs_" + "a" * 32 + "_0", "summary": [],
        "content": [{"type": "reasoning_text", "text": text}] if text else [],
        **({"encrypted_content": signed} if signed else {}),
    },
    st.just("") | WORDS, st.none() | SIGNED,
)  # fmt: skip
ASKED: Drawn = st.builds(
    lambda role, content: {"type": "message", "role": role, "content": content},
    st.sampled_from(["user", "user", "system", "developer"]), texts("input_text"),
) | st.builds(
    lambda text, part: {"role": "user", "content": [{"type": "input_text", "text": text}, part]},
    WORDS, st.sampled_from([IMAGE, FILE]),
)  # fmt: skip
SPOKEN: Drawn = st.builds(
    lambda content, refusal: {
        "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "refusal", "refusal": refusal}] if refusal else content,
    },
    texts("output_text"), st.none() | st.none() | WORDS,
)  # fmt: skip


@st.composite
def called(draw: st.DrawFn) -> list[Document]:
    """Some calls, with what the assistant says among them, and their outputs."""
    ids = draw(st.lists(st.sampled_from(["call_1", "c-2", "c 3"]), min_size=1, unique=True))
    items: list[Document] = []
    for own in ids:
        items += draw(st.lists(THOUGHTS | SPOKEN, max_size=1))
        items.append({"type": "function_call", "call_id": own, "name": draw(NAMES),
                      "arguments": json.dumps({"a": draw(WORDS)})})  # fmt: skip
    for own in draw(st.permutations(ids)):
        output = draw(texts("input_text"))
        items.append({"type": "function_call_output", "call_id": own, "output": output})
    return items


@st.composite
def bodies(draw: st.DrawFn) -> Document:
    one = (ASKED | SPOKEN | THOUGHTS).map(lambda item: [item])
    items = [item for group in draw(st.lists(one | called(), max_size=5)) for item in group]
    if odd := draw(st.none() | st.none() | st.sampled_from(ODD_ITEMS)):
        items.insert(draw(st.integers(0, len(items))), odd)
    tools = draw(st.lists(st.builds(_tool, NAMES, SCHEMAS, st.none() | st.booleans()), max_size=2))
    body: Document = {
        "model": "writer",
        "input": items or draw(WORDS),
        "instructions": draw(st.none() | WORDS),
        "max_output_tokens": draw(st.none() | st.integers(1, 99)),
        "temperature": draw(st.none() | st.sampled_from([0, 0.5])),
        "tools": tools,
        "tool_choice": draw(st.sampled_from([None, "auto", {"type": "function", "name": "trams"}]))
        if tools
        else None,
        "parallel_tool_calls": draw(st.none() | st.booleans()),
        "text": draw(st.none() | st.builds(_wording, SCHEMAS, st.sampled_from([None, "low"]))),
        "reasoning": draw(st.none() | st.just({"effort": "low"})),
        "metadata": {"a": "b"},
        "store": False,
    }
    nothing: list[Document] = [{}] * len(ODD_FIELDS)
    return body | draw(st.sampled_from(nothing + ODD_FIELDS))


def _tool(name: str, schema: Document, strict: bool | None) -> Document:
    return {"type": "function", "name": name, "parameters": schema, "strict": strict}


def _wording(schema: Document, verbosity: str | None) -> Document:
    shape = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
    return {"format": shape if schema else {"type": "text"}, "verbosity": verbosity}


@given(bodies())
def test_a_call_that_goes_there_means_the_same_there(body: Document) -> None:
    before = copy.deepcopy(body)
    need = next(iter(AS_CHAT.needs(body)), None)
    event("stays" if need else "goes")
    items = [item for item in body["input"] if isinstance(item, dict)]
    odd = any(item in ODD_ITEMS for item in items) or any(
        body.get(key) == value for each in ODD_FIELDS for key, value in each.items()
    )
    silent = items and not any(map(_says, items))
    assert (need is not None) is bool(odd or silent)
    if need is None:
        chat = AS_CHAT.document(body)
        beyond = next(iter(AS_CHAT.document_needs(chat)), None)
        if beyond is None:
            assert problem(chat) == ""
        assert _meaning_there(chat) == _meaning(body)
    assert body == before


def _says(item: Document) -> bool:
    return bool(
        item.get("type") != "reasoning" or item.get("content") or item.get("encrypted_content")
    )


def _meaning(body: Document) -> Document:
    turns: list[list[Any]] = []
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if body["instructions"]:
        items = [{"role": "system", "content": body["instructions"]}, *items]
    for item in items:
        kind, role = item.get("type", "message"), item.get("role")
        if kind == "function_call_output":
            turns.append(["tool", item["call_id"], _parts(item["output"])])
        elif kind == "message" and role != "assistant":
            turns.append(["system" if role == "developer" else role, _parts(item["content"])])
        else:
            _speak(turns, kind, item)
    wording, tools = body["text"] or {}, body["tools"]
    shape = wording.get("format", {"type": "text"})
    choice = body["tool_choice"]
    return {
        "turns": [_joined(turn) for turn in turns if turn != ["assistant", [], [], [], []]],
        "most": body["max_output_tokens"],
        "temperature": body["temperature"],
        "tools": [[t["name"], t["parameters"], t["strict"]] for t in tools],
        "choice": choice["name"] if isinstance(choice, dict) else choice,
        "parallel": body["parallel_tool_calls"] if tools else None,
        "shape": [shape["name"], shape["schema"]] if shape["type"] == "json_schema" else None,
        "verbosity": wording.get("verbosity"),
        "effort": (body["reasoning"] or {}).get("effort"),
    }


def _speak(turns: list[list[Any]], kind: str, item: Document) -> None:
    """The assistant's turn: what it thinks, says, refuses and calls."""
    if not turns or turns[-1][0] != "assistant":
        turns.append(["assistant", [], [], [], []])
    _, thoughts, spoken, refusals, calls = turns[-1]
    if kind == "function_call":
        calls.append([item["call_id"], item["name"], item["arguments"]])
    elif kind == "reasoning":
        text = "".join(part["text"] for part in item["content"])
        kind, _, signature = item.get("encrypted_content", "").partition(":")
        if text or signature:
            thoughts.append([text if kind != "redacted_thinking" else "", kind, signature])
            if kind == "redacted_thinking" and text:
                thoughts.append([text, "", ""])
    else:
        for value in _parts(item["content"]):
            (refusals if value[0] == "refusal" else spoken).append(value[1])


def _joined(turn: list[Any]) -> list[Any]:
    """Unsigned thoughts, texts and refusals may be split in other places."""
    if turn[0] != "assistant":
        return turn
    role, thoughts, spoken, refusals, calls = turn
    signed = [each for each in thoughts if each[2]]
    return [role, "".join(each[0] for each in thoughts), [each[1:] for each in signed],
            "".join(spoken), "".join(refusals), calls]  # fmt: skip


def _parts(content: Any) -> list[tuple[Any, ...]]:
    if isinstance(content, str):
        return [("text", content)] if content else []
    return [_part(part) for part in content]


def _part(part: Document) -> tuple[Any, ...]:
    match part:
        case {"type": "input_text" | "output_text" | "text", "text": text}:
            return ("text", text)
        case {"type": "refusal", "refusal": text}:
            return ("refusal", text)
        case {"type": "input_image", "image_url": url, "detail": detail}:
            return ("image", url, detail)
        case {"type": "image_url", "image_url": image}:
            return ("image", image["url"], image["detail"])
        case {"type": "input_file"}:
            return ("file", part["file_data"], part["filename"])
        case {"type": "file", "file": file}:
            return ("file", file["file_data"], file["filename"])
    raise AssertionError(part)


def _meaning_there(chat: Document) -> Document:
    turns: list[list[Any]] = []
    for message in chat["messages"]:
        role = message["role"]
        if role == "tool":
            turns.append(["tool", message["tool_call_id"], _parts(message["content"])])
        elif role != "assistant":
            turns.append([role, _parts(message["content"])])
        else:
            if not turns or turns[-1][0] != "assistant":
                turns.append(["assistant", [], [], [], []])
            _, thoughts, spoken, refusals, calls = turns[-1]
            for block in message.get("thinking_blocks", ()):
                thoughts.append(["", block["type"], block.get("signature", block.get("data"))])
            thoughts.append([message.get("reasoning_content", ""), "", ""])
            spoken += [text for _, text in _parts(message["content"] or "")]
            refusals.append(message.get("refusal", ""))
            functions = [(each["id"], each["function"]) for each in message.get("tool_calls", ())]
            calls += [[own, each["name"], each["arguments"]] for own, each in functions]
    tools = [each["function"] for each in chat.get("tools", ())]
    choice = chat.get("tool_choice")
    stated = chat.get("response_format", {}).get("json_schema")
    return {
        "turns": [_joined(turn) for turn in turns],
        "most": chat.get("max_completion_tokens"),
        "temperature": chat.get("temperature"),
        "tools": [[t["name"], t["parameters"], t.get("strict")] for t in tools],
        "choice": choice["function"]["name"] if isinstance(choice, dict) else choice,
        "parallel": chat.get("parallel_tool_calls"),
        "shape": [stated["name"], stated["schema"]] if stated else None,
        "verbosity": chat.get("verbosity"),
        "effort": chat.get("reasoning_effort"),
    }


CALLS: Drawn = st.lists(
    st.builds(lambda name, own, text: call(name, own, a=text), NAMES, WORDS, WORDS),
    max_size=3, unique_by=lambda each: each["id"],
)  # fmt: skip
REPLIES: Drawn = st.builds(
    lambda content, thoughts, calls, refusal, piece: Reply(
        content, thoughts, calls, {"refusal": refusal}, piece=piece
    ),
    st.none() | WORDS, st.just("") | WORDS, CALLS, st.none() | WORDS, st.integers(1, 5),
)  # fmt: skip


@given(REPLIES, st.sampled_from([None, "auto"]))
def test_an_answer_means_the_same_whole_and_in_pieces_and_when_it_comes_back(
    reply: Reply, summary: str | None
) -> None:
    outputs = []
    for chunks in ([completion(reply)], chunks_of(reply)):
        writer = ResponseWriter({"reasoning": {"summary": summary}}, "writer")
        for chunk in chunks:
            writer.read(chunk)
        outputs.append(writer.end(Usage(1, 1), 2)["output"])
        _check_events(writer.events.taken()[0], outputs[-1])
    whole, streamed = outputs
    assert [_without_ids(item) for item in whole] == [_without_ids(item) for item in streamed]
    assert next(iter(AS_CHAT.needs({"input": whole or "Hi"})), None) is None
    messages = AS_CHAT.document({"input": whole})["messages"]
    assert len(messages) == bool(whole)
    for message in messages:
        assert message.get("reasoning_content", "") == reply.thoughts
        assert (message["content"] or "") == (reply.content or "")
        assert message.get("refusal") == reply.more["refusal"]
        assert message.get("tool_calls", []) == reply.calls


def _without_ids(item: Document) -> Document:
    return {key: value for key, value in item.items() if key != "id"}


def _check_events(stream: bytes, output: list[Document]) -> None:
    """Each item is added, is told in pieces and is done, one after the other."""
    events = [json.loads(each.partition(b"data: ")[2]) for each in stream.split(b"\n\n")[:-1]]
    assert [each["sequence_number"] for each in events] == list(range(len(events)))
    added = [e["item"]["id"] for e in events if e["type"] == "response.output_item.added"]
    done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    assert done == output
    assert added == [item["id"] for item in output]
    for item in output:
        pieces = "".join([e["delta"] for e in events if e.get("item_id") == item["id"]
                          and e["type"].endswith(".delta")])  # fmt: skip
        contents = item.get("content") or item.get("summary") or [{"text": item.get("arguments")}]
        assert pieces == "".join([p.get("text", p.get("refusal")) for p in contents])
