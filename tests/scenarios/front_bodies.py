"""Calls in other APIs' words, with what is said at each place where it may stand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.unit.classify.corpus import Said

Body = dict[str, Any]
Bodies = dict[str, Callable[[Said], Body]]


def halves(said: Said) -> tuple[str, str]:
    words = said.text.split()
    return f"My card: {' '.join(words[:2])}", " ".join(words[2:])


# Google's


def content(*parts: Any, role: str = "user") -> Body:
    return {"role": role, "parts": list(parts)}


def contents(*turns: Any) -> Body:
    return {"contents": [*turns, content({"text": "?"})]}


def called(name: str = "f", args: Any = None, response: Any = None, own: str = "c") -> Body:
    call = {"functionCall": {"id": own, "name": name, "args": args or {}}}
    given = {"functionResponse": {"id": own, "name": name, "response": response or {}}}
    return {"contents": [content({"text": "hi"}), content(call, role="model"), content(given)]}


def declared(**fields: Any) -> Body:
    return {"tools": [{"functionDeclarations": [{"name": "f", **fields}]}]}


def shaped(**fields: Any) -> Body:
    return {"generationConfig": {"responseMimeType": "application/json", **fields}}


GOOGLE: Bodies = {
    "text": lambda s: contents(content({"text": s.text})),
    "earlier answer": lambda s: contents(content({"text": s.text}, role="model")),
    "split over parts": lambda s: contents(content(*({"text": half} for half in halves(s)))),
    "split over pieces of a stream": lambda s: contents(
        *(content({"text": half}, role="model") for half in halves(s))
    ),
    "thought": lambda s: contents(
        content({"text": s.text, "thought": True}, {"text": "x"}, role="model")
    ),
    "system": lambda s: {"systemInstruction": {"parts": [{"text": s.text}]}},
    "argument": lambda s: called(args={"a": {"b": [s.text]}}),
    "argument's name": lambda s: called(args={s.text: 1}),
    "number": lambda s: called(args={"card": s.number}),
    "call's id": lambda s: called(own=s.text),
    "response": lambda s: called(response={"output": s.text}),
    "response's field": lambda s: called(response={"a": {s.text: 1}}),
    "description": lambda s: declared(description=s.text),
    "parameters": lambda s: declared(parameters={"type": "STRING", "enum": [s.text]}),
    "parameter's example": lambda s: declared(parameters={"type": "STRING", "example": s.text}),
    "parameter's name": lambda s: declared(
        parameters={"type": "OBJECT", "properties": {s.text: {"type": "STRING"}}}
    ),
    "JSON Schema": lambda s: declared(parametersJsonSchema={"type": "object", "const": s.text}),
    "what a function returns": lambda s: declared(response={"type": "STRING", "title": s.text}),
    "answer's schema": lambda s: shaped(responseSchema={"type": "STRING", "description": s.text}),
    "answer's JSON Schema": lambda s: shaped(
        responseJsonSchema={"type": "object", "title": s.text}
    ),
    "stop sequence": lambda s: {"generationConfig": {"stopSequences": [s.text]}},
}

# Bedrock's


def turn(*blocks: Any, role: str = "user") -> Body:
    return {"messages": [{"role": role, "content": list(blocks)}, *HI]}


def used(given: Any = None, result: Any = None, own: str = "t") -> Body:
    call = {"toolUse": {"toolUseId": own, "name": "f", "input": given or {}}}
    answer = {"toolResult": {"toolUseId": own, "content": [result or {"text": "x"}]}}
    turns = [("assistant", call), ("user", answer)]
    return {"messages": [*HI, *({"role": role, "content": [each]} for role, each in turns)]}


def offered(**spec: Any) -> Body:
    stated = {"name": "f", "inputSchema": {"json": {"type": "object"}}, **spec}
    return {"toolConfig": {"tools": [{"toolSpec": stated}]}}


def formatted(schema: Body, **more: str) -> Body:
    shape = {"jsonSchema": {"schema": json.dumps(schema), **more}}
    return {"outputConfig": {"textFormat": {"type": "json_schema", "structure": shape}}}


HI = [{"role": "user", "content": [{"text": "hi"}]}]
BEDROCK: Bodies = {
    "text": lambda s: turn({"text": s.text}),
    "marked text": lambda s: turn({"text": s.text}, {"cachePoint": {"type": "default"}}),
    "earlier answer": lambda s: turn({"text": s.text}, role="assistant"),
    "split over blocks": lambda s: turn(*({"text": half} for half in halves(s))),
    "thought": lambda s: turn(
        {"reasoningContent": {"reasoningText": {"text": s.text, "signature": "c2ln"}}},
        {"text": "x"},
        role="assistant",
    ),
    "system": lambda s: {"system": [{"text": s.text}]},
    "system turn": lambda s: turn({"text": s.text}, role="system"),
    "input": lambda s: used(given={"a": {"b": [s.text]}}),
    "input's name": lambda s: used(given={s.text: 1}),
    "number": lambda s: used(given={"card": s.number}),
    "call's id": lambda s: used(own=s.text),
    "result": lambda s: used(result={"text": s.text}),
    "JSON result": lambda s: used(result={"json": {"a": [s.text]}}),
    "description": lambda s: offered(description=s.text),
    "schema": lambda s: offered(inputSchema={"json": {"type": "object", "const": s.text}}),
    "answer's schema": lambda s: formatted({"type": "object", "const": s.text}),
    "answer's description": lambda s: formatted({"type": "object"}, name="a", description=s.text),
    "stop sequence": lambda s: {"inferenceConfig": {"stopSequences": [s.text]}},
    "metadata": lambda s: {"requestMetadata": {"a": s.text}},
    "metadata's name": lambda s: {"requestMetadata": {s.text: "a"}},
}

# Cohere's


def said(*messages: Any) -> Body:
    return {"model": "scribe", "messages": [*messages, {"role": "user", "content": "?"}]}


def tooled(arguments: Any = None, result: Any = "x", plan: str = "", own: str = "t") -> Body:
    call = {"id": own, "type": "function"}
    call["function"] = {"name": "f", "arguments": json.dumps(arguments or {})}  # type: ignore[assignment]
    answer = {"role": "assistant", "tool_calls": [call]}
    if plan:
        answer["tool_plan"] = plan
    return {
        "messages": [
            {"role": "user", "content": "hi"},
            answer,
            {"role": "tool", "tool_call_id": own, "content": result},
        ]
    }


def function(**fields: Any) -> Body:
    stated = {"name": "f", "parameters": {"type": "object"}, **fields}
    return {"tools": [{"type": "function", "function": stated}]}


def text(words: str) -> Body:
    return {"type": "text", "text": words}


COHERE: Bodies = {
    "text": lambda s: said({"role": "user", "content": s.text}),
    "part": lambda s: said({"role": "user", "content": [text(s.text)]}),
    "split over parts": lambda s: said(
        {"role": "user", "content": [text(half) for half in halves(s)]}
    ),
    "earlier answer": lambda s: said({"role": "assistant", "content": [text(s.text)]}),
    "thought": lambda s: said(
        {"role": "assistant", "content": [{"type": "thinking", "thinking": s.text}, text("x")]}
    ),
    "system": lambda s: said({"role": "system", "content": s.text}),
    "arguments": lambda s: tooled(arguments={"a": [s.text]}),
    "number": lambda s: tooled(arguments={"card": s.number}),
    "plan": lambda s: tooled(plan=s.text),
    "call's id": lambda s: tooled(own=s.text),
    "result": lambda s: tooled(result=s.text),
    "result's document": lambda s: tooled(
        result=[{"type": "document", "document": {"data": {"a": s.text}}}]
    ),
    "result's document's id": lambda s: tooled(
        result=[{"type": "document", "document": {"id": s.text, "data": {}}}]
    ),
    "description": lambda s: function(description=s.text),
    "schema": lambda s: function(parameters={"type": "object", "const": s.text}),
    "answer's schema": lambda s: {
        "response_format": {
            "type": "json_object",
            "json_schema": {"type": "object", "const": s.text},
        }
    },
    "stop sequence": lambda s: {"stop_sequences": [s.text]},
}

BODIES = {"google": GOOGLE, "bedrock": BEDROCK, "cohere": COHERE}
PATHS = {
    "google": "/v1beta/models/scribe:generateContent",
    "bedrock": "/model/scribe/converse",
    "cohere": "/v2/chat",
}
PLAIN: dict[str, Body] = {
    "google": {"contents": [content({"text": "hi"})]},
    "bedrock": {"messages": HI},
    "cohere": said({"role": "user", "content": "hi"}),
}
