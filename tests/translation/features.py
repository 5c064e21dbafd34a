"""Features of calls, as each front's API has them: fields in the place of, or beside, those of a
plain call. A word that begins with `w-` is the caller's, which a provider must be sent."""

from __future__ import annotations

from typing import Any

from tests.anthropic_api import text as words
from tests.translation.other_fronts import BODIES

Document = dict[str, Any]
HI: Document = {"role": "user", "content": "w-hi"}
PLAIN: dict[str, Document] = {
    "chat": {"model": "m", "messages": [HI]},
    "messages": {"model": "m", "max_tokens": 9, "messages": [HI]},
}
SCHEMA = {"type": "object", "properties": {"w-a": {}}, "additionalProperties": False}
FUNCTION = {"name": "w-f", "parameters": SCHEMA}
TOOL = {"name": "w-f", "input_schema": SCHEMA}
MARK = {"cache_control": {"type": "ephemeral"}}
PNG, PDF = "data:image/png;base64,AAAA", "data:application/pdf;base64,AAAA"
Sayable = dict[str, Document]


def both(**fields: Any) -> Sayable:
    return {"chat": fields, "messages": fields}


def turns(*messages: Document) -> Document:
    return {"messages": [HI, *messages, HI]}


def part(chat: Document | None, block: Document | None) -> Sayable:
    """What stands beside a text of the user's."""
    made: Sayable = {}
    if chat is not None:
        made["chat"] = turns({"role": "user", "content": [words("w-t"), chat]})
    if block is not None:
        made["messages"] = turns({"role": "user", "content": [words("w-t"), block]})
    return made


def paper(source: Document, **more: Any) -> Document:
    return {"type": "document", "source": source, **more}


def answer(*blocks: Document) -> Document:
    return {"role": "assistant", "content": list(blocks)}


def used(result: Any, **more: Any) -> Document:
    call = {"type": "tool_use", "id": "w-1", "name": "w-f", "input": {"w-a": 1}}
    given = {"type": "tool_result", "tool_use_id": "w-1", "content": result, **more}
    return {"messages": [HI, answer(call), {"role": "user", "content": [given]}], "tools": [TOOL]}


def called(content: Any) -> Document:
    function = {"name": "w-f", "arguments": '{"w-a": 1}'}
    call = {"id": "w-1", "type": "function", "function": function}
    result = {"role": "tool", "tool_call_id": "w-1", "content": content}
    spoken = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"messages": [HI, spoken, result], "tools": [{"type": "function", "function": FUNCTION}]}


def offered(chat: Document, messages: Document, **tool: Any) -> Sayable:
    """With a tool."""
    marks = {key: tool.pop(key) for key in [*tool] if key == "cache_control"}
    function = {"type": "function", "function": FUNCTION | tool, **marks}
    return {
        "chat": {"tools": [function], **chat},
        "messages": {"tools": [{**TOOL, **tool, **marks}], **messages},
    }


def chosen(chat: Any, **choice: Any) -> Sayable:
    return offered({"tool_choice": chat}, {"tool_choice": choice})


BLOCK = {"type": "thinking", "thinking": "w-thought", "signature": "c2ln"}
PLAIN_TEXT = {"type": "text", "media_type": "text/plain", "data": "w-a"}
SEARCH = {"type": "web_search_20260209", "name": "web_search"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
PICTURE = {"type": "image_url", "image_url": {"url": PNG}}
NAMED = {"type": "function", "function": {"name": "w-f"}}
FEATURES: dict[str, Sayable] = {
    "text": both(),
    "text-parts": both(messages=[{"role": "user", "content": [words("w-a"), words("w-b")]}]),
    "turns": both(**turns({"role": "assistant", "content": "w-a"})),
    "system": {
        "chat": {"messages": [{"role": "system", "content": "w-s"}, HI]},
        "messages": {"system": "w-s"},
    },
    "system-blocks": {
        "chat": {"messages": [{"role": "developer", "content": [words("w-s")]}, HI]},
        "messages": {"system": [words("w-s"), words("w-z")]},
    },
    "later-system": both(**turns({"role": "system", "content": "w-s"})),
    "prefill": both(messages=[HI, {"role": "assistant", "content": "w-a"}]),
    "speaker-name": {"chat": turns({"role": "user", "name": "w-n", "content": "w-a"})},
    "image": part(PICTURE, IMAGE),
    "image-url": part(
        {"type": "image_url", "image_url": {"url": "https://w-a.example"}},
        {"type": "image", "source": {"type": "url", "url": "https://w-a.example"}},
    ),
    "pdf": part(
        {"type": "file", "file": {"file_data": PDF, "filename": "w-a"}},
        paper({"type": "base64", "media_type": "application/pdf", "data": "AAAA"}, title="w-a"),
    ),
    "pdf-url": part(None, paper({"type": "url", "url": "https://w-a.example"})),
    "text-document": part(None, paper(PLAIN_TEXT)),
    "document-context": part(None, paper(PLAIN_TEXT, context="w-c")),
    "citations": part(
        None,
        paper(PLAIN_TEXT, citations={"enabled": True}),
    ),
    "audio": part({"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}, None),
    "tools": offered({}, {}, description="w-d"),
    "strict-tools": offered({}, {}, strict=True),
    "tool-choice-auto": chosen("auto", type="auto"),
    "tool-choice-any": chosen("required", type="any"),
    "tool-choice-none": chosen("none", type="none"),
    "tool-choice-named": chosen(NAMED, type="tool", name="w-f"),
    "one-tool-at-a-time": offered(
        {"parallel_tool_calls": False},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    "tool-result": {"chat": called("w-r"), "messages": used("w-r")},
    "tool-result-parts": {"chat": called([words("w-r")]), "messages": used([words("w-r")])},
    "tool-result-image": {"chat": called([PICTURE]), "messages": used([IMAGE])},
    "tool-error": {"messages": used("w-r", is_error=True)},
    "text-behind-a-call": {
        "messages": {
            "messages": [
                HI,
                answer({"type": "tool_use", "id": "w-1", "name": "w-f", "input": {}}, words("w-b")),
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "w-1", "content": "w-r"}],
                },
            ],
            "tools": [TOOL],
        }
    },
    "server-tools": {"messages": {"tools": [SEARCH]}},
    "mcp-servers": {"messages": {"mcp_servers": [{"type": "url", "url": "https://a.example"}]}},
    "web-search": {"chat": {"web_search_options": {}}},
    "json-schema": {
        "chat": {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "w-n", "schema": SCHEMA, "strict": True},
            }
        },
        "messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    },
    "json-object": {"chat": {"response_format": {"type": "json_object"}}},
    "max-tokens": {"chat": {"max_completion_tokens": 77}, "messages": {"max_tokens": 77}},
    "temperature": both(temperature=0.5),
    "top-p": both(top_p=0.5),
    "top-k": both(top_k=40),
    "seed": {"chat": {"seed": 7}},
    "penalties": {"chat": {"presence_penalty": 0.5}},
    "stop": {"chat": {"stop": ["w-x"]}, "messages": {"stop_sequences": ["w-x"]}},
    "choices": {"chat": {"n": 2}},
    "logprobs": {"chat": {"logprobs": True}},
    "logit-bias": {"chat": {"logit_bias": {"5": 1}}},
    "prediction": {"chat": {"prediction": {"type": "content", "content": "w-p"}}},
    "verbosity": {"chat": {"verbosity": "low"}},
    "effort": {
        "chat": {"reasoning_effort": "low"},
        "messages": {"output_config": {"effort": "low"}},
    },
    "effort-max": {
        "chat": {"reasoning_effort": "max"},
        "messages": {"output_config": {"effort": "max"}},
    },
    "thinking": both(thinking={"type": "adaptive"}),
    "thinking-budget": both(thinking={"type": "enabled", "budget_tokens": 2000}),
    "no-thinking": {
        "chat": {"reasoning_effort": "none"},
        "messages": {"thinking": {"type": "disabled"}},
    },
    "signed-thoughts": {
        "chat": turns({"role": "assistant", "content": "w-a", "thinking_blocks": [BLOCK]}),
        "messages": turns(answer(BLOCK, words("w-a"))),
    },
    "unsigned-thoughts": {
        "chat": turns({"role": "assistant", "content": "w-a", "reasoning_content": "w-t"}),
        "messages": turns(answer({**BLOCK, "signature": ""}, words("w-a"))),
    },
    "redacted-thoughts": {
        "messages": turns(answer({"type": "redacted_thinking", "data": "dy14"}, words("w-a")))
    },
    "cache-marks": {
        "chat": turns({"role": "user", "content": [words("w-a") | MARK]}),
        "messages": turns({"role": "user", "content": [words("w-a") | MARK]}),
    },
    "cached-tools": offered({}, {}, **MARK),
    "user": {"chat": {"user": "w-u"}, "messages": {"metadata": {"user_id": "w-u"}}},
    "service-tier": {
        "chat": {"service_tier": "default"},
        "messages": {"service_tier": "standard_only"},
    },
    "stream": both(stream=True),
}
"""By its name, the fields of each front that can say it."""
for _front, (_plain, _sayable) in BODIES.items():
    PLAIN[_front] = _plain
    for _feature, _fields in _sayable.items():
        FEATURES[_feature][_front] = _fields
