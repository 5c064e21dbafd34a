"""Google's, Bedrock's and Cohere's calls as chats, and back: what is refused, and what stays."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from gateway.core.errors import InvalidField, UpstreamFailed, UpstreamUnreachable
from gateway.core.operations.dialects import cohere as cohere_words
from gateway.core.operations.dialects import gemini as gemini_words
from gateway.core.types import ServedModel
from gateway.endpoints.connectors.openai.dialects.bedrock.request import request as to_bedrock
from gateway.endpoints.connectors.openai.dialects.cohere.request import request as to_cohere
from gateway.endpoints.connectors.openai.dialects.gemini.request import request as to_gemini
from gateway.server.dialects.bedrock import requests as bedrock
from gateway.server.dialects.bedrock.answers import converse
from gateway.server.dialects.bedrock.events import ConverseWriter
from gateway.server.dialects.cohere import embeddings as cohere_embeddings
from gateway.server.dialects.cohere import requests as cohere
from gateway.server.dialects.cohere.answers import response as cohere_response
from gateway.server.dialects.cohere.events import ChatWriter
from gateway.server.dialects.gemini import embeddings, signatures
from gateway.server.dialects.gemini import requests as gemini
from gateway.server.dialects.gemini.answers import response
from gateway.server.dialects.gemini.events import GenerateWriter
from gateway.server.dialects.stream import StreamWriter

Document = dict[str, Any]


def contents(*parts: Any, role: str = "user") -> Document:
    return {"contents": [{"role": role, "parts": list(parts)}]}


def config(**fields: Any) -> Document:
    return {"generationConfig": fields}


def declared(**fields: Any) -> Document:
    return {"tools": [{"functionDeclarations": [{"name": "f", **fields}]}]}


CALL: Document = {"functionCall": {"name": "f", "args": {"a": 1}}}
JSON = {"responseMimeType": "application/json"}


def answered(*parts: Any) -> Document:
    return {
        "contents": [{"role": "model", "parts": list(parts)}, *contents({"text": "?"})["contents"]]
    }


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"labels": {"a": "b"}}, "labels"),
        ({"contents": None}, "contents"),
        ({"contents": ["hi"]}, "contents[0]"),
        (contents(), "contents[0].parts"),
        (contents({"text": "a"}, role="system"), "contents[0].role"),
        (contents({}), "contents[0].parts[0]"),
        (contents({"text": 4}), "contents[0].parts[0].text"),
        (contents({"text": "a", "inlineData": {}}), "contents[0].parts[0]"),
        (contents({"text": "a", "videoMetadata": {}}), "contents[0].parts[0].videoMetadata"),
        (contents({"text": "a", "thoughtSignature": "c2ln"}),
         "contents[0].parts[0].thoughtSignature"),
        (contents({"executableCode": {}}), "contents[0].parts[0].executableCode"),
        (contents(CALL), "contents[0].parts[0].functionCall"),
        (contents({"inlineData": {"mimeType": "video/mp4", "data": "AA"}}),
         "contents[0].parts[0].inlineData.mimeType"),
        (contents({"inlineData": {"mimeType": "image/png;a", "data": "AA"}}),
         "contents[0].parts[0].inlineData.mimeType"),
        (contents({"fileData": {"mimeType": "image/png", "fileUri": "files/a"}}),
         "contents[0].parts[0].fileData.fileUri"),
        (contents({"functionResponse": {"name": "f", "response": {}}}),
         "contents[0].parts[0].functionResponse"),
        (answered(CALL, {"text": "a"}), "contents[0].parts[1]"),
        (answered({"text": "a", "thoughtSignature": "YQ=="},
                  {"text": "b", "thoughtSignature": "Yg=="}),
         "contents[0].parts[1].thoughtSignature"),
        ({"systemInstruction": {"parts": [{"inlineData": {"mimeType": "image/png", "data": ""}}]}},
         "systemInstruction.parts[0]"),
        ({"tools": [{"codeExecution": {}}]}, "tools[0].codeExecution"),
        (declared(behavior="BLOCKING"), "tools[0].functionDeclarations[0].behavior"),
        (declared(parameters={"type": "FUNCTION"}),
         "tools[0].functionDeclarations[0].parameters.type"),
        (declared(parameters={"type": "STRING", "not": {}}),
         "tools[0].functionDeclarations[0].parameters.not"),
        (declared(parameters={}, parametersJsonSchema={}),
         "tools[0].functionDeclarations[0].parametersJsonSchema"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "SOME"}}},
         "toolConfig.functionCallingConfig.mode"),
        ({"toolConfig": {"retrievalConfig": {}}}, "toolConfig.retrievalConfig"),
        (config(speechConfig={}), "generationConfig.speechConfig"),
        (config(responseModalities=["IMAGE"]), "generationConfig.responseModalities"),
        (config(topK=0.5), "generationConfig.topK"),
        (config(responseSchema={}), "generationConfig.responseSchema"),
        (config(**JSON, responseSchema={}, responseJsonSchema={}),
         "generationConfig.responseJsonSchema"),
        (config(thinkingConfig={"thinkingLevel": "SOME"}),
         "generationConfig.thinkingConfig.thinkingLevel"),
        (config(topP=1, top_p=1), "generationConfig"),
    ],
)  # fmt: skip
def test_what_no_chat_can_say_is_refused_in_google_s_words(fields: Document, name: str) -> None:
    with pytest.raises(InvalidField) as caught:
        gemini.chat(contents({"text": "hi"}) | fields, "m", False)
    assert caught.value.param == name


def turn(*blocks: Any, role: str = "user") -> Document:
    return {"messages": [{"role": role, "content": list(blocks)}]}


HI: Document = {"text": "hi"}
USE = {"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}
PAPER = {"format": "pdf", "name": "a", "source": {"bytes": "AA"}}
POINT = {"cachePoint": {"type": "default"}}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"trace": "ENABLED"}, "trace"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": [HI]}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": "hi"}]}, "messages[0].content"),
        (turn(), "messages[0].content"),
        (turn({"text": "a", "image": {}}), "messages[0].content[0]"),
        (turn({"searchResult": {}}), "messages[0].content[0].searchResult"),
        (turn({"guardContent": {}}), "messages[0].content[0].guardContent"),
        (turn(POINT), "messages[0].content[0].cachePoint"),
        (turn(HI, {"cachePoint": {"type": "some"}}), "messages[0].content[1].cachePoint.type"),
        (turn({"image": {"format": "bmp", "source": {"bytes": "AA"}}}),
         "messages[0].content[0].image.format"),
        (turn({"image": {"format": "png", "source": {"s3Location": {"uri": "s3://a"}}}}),
         "messages[0].content[0].image.source.s3Location"),
        (turn({"document": {**PAPER, "citations": {"enabled": True}}}),
         "messages[0].content[0].document.citations"),
        (turn({"document": {**PAPER, "source": {"content": [HI]}}}),
         "messages[0].content[0].document.source.content"),
        (turn(HI, {"toolResult": {"toolUseId": "t", "content": []}}), "messages[0].content[1]"),
        (turn({"toolResult": {"toolUseId": "t", "content": [], "type": "x"}}),
         "messages[0].content[0].toolResult.type"),
        (turn(USE, HI, role="assistant"), "messages[0].content[1]"),
        (turn({"toolUse": {**USE["toolUse"], "type": "server_tool_use"}}, role="assistant"),
         "messages[0].content[0].toolUse.type"),
        (turn({"reasoningContent": {"redactedContent": "//8="}}, role="assistant"),
         "messages[0].content[0].reasoningContent.redactedContent"),
        ({"system": [{"guardContent": {}}]}, "system[0].guardContent"),
        ({"inferenceConfig": {"topK": 4}}, "inferenceConfig.topK"),
        ({"toolConfig": {"tools": [POINT]}}, "toolConfig.tools[0].cachePoint"),
        ({"toolConfig": {"tools": [], "toolChoice": {"auto": {}, "any": {}}}},
         "toolConfig.toolChoice"),
        ({"serviceTier": {"type": "reserved"}}, "serviceTier.type"),
        ({"outputConfig": {"effort": "some"}}, "outputConfig.effort"),
        ({"outputConfig": {"textFormat": {"type": "json_schema",
                                          "structure": {"jsonSchema": {"schema": "{"}}}}},
         "outputConfig.textFormat.structure.jsonSchema.schema"),
        ({"requestMetadata": {"a": 1}}, "requestMetadata"),
    ],
)  # fmt: skip
def test_what_no_chat_can_say_is_refused_in_bedrock_s_words(fields: Document, name: str) -> None:
    with pytest.raises(InvalidField) as caught:
        bedrock.chat(turn(HI) | fields, "m", False)
    assert caught.value.param == name


def said(*parts: Any, role: str = "user", **more: Any) -> Document:
    return {"messages": [{"role": role, "content": list(parts), **more}]}


TEXT = {"type": "text", "text": "hi"}
FUNCTION = {"name": "f", "parameters": {"type": "object"}}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"connectors": []}, "connectors"),
        ({"documents": [{"data": {}}]}, "documents"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "developer", "content": "hi"}]}, "messages[0].role"),
        (said(), "messages[0].content"),
        (said(TEXT, name="n"), "messages[0].name"),
        (said({"type": "document", "document": {"data": {}}}), "messages[0].content[0]"),
        (said({"type": "image_url", "image_url": {"url": "u", "size": 1}}),
         "messages[0].content[0].image_url.size"),
        (said(TEXT, role="assistant", citations=[{}]), "messages[0].citations"),
        (said({"type": "image_url", "image_url": {"url": "u"}}, role="assistant"),
         "messages[0].content[0]"),
        (said(TEXT, role="tool"), "messages[0].tool_call_id"),
        ({"tools": [{"type": "web"}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {**FUNCTION, "strict": True}}]},
         "tools[0].function.strict"),
        ({"tool_choice": "AUTO"}, "tool_choice"),
        ({"strict_tools": 1}, "strict_tools"),
        ({"thinking": {"type": "some"}}, "thinking.type"),
        ({"thinking": {"type": "enabled", "token_budget": 0}}, "thinking.token_budget"),
        ({"response_format": {"type": "text", "json_schema": {}}}, "response_format.json_schema"),
        ({"k": 0.5}, "k"),
        ({"safety_mode": "OFF"}, "safety_mode"),
        ({"max_tokens": 0}, "max_tokens"),
    ],
)  # fmt: skip
def test_what_no_chat_can_say_is_refused_in_cohere_s_words(fields: Document, name: str) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with pytest.raises(InvalidField) as caught:
        cohere.chat(body | fields)
    assert caught.value.param == name


@pytest.mark.parametrize(
    "made",
    [
        gemini.chat(
            contents({"text": "hi"})
            | config(responseMimeType="text/plain", responseModalities=["TEXT"], stopSequences=[])
            | {"tools": [], "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}}
            | {"systemInstruction": {"parts": [{"text": ""}]}, "cachedContent": None},
            "m",
            False,
        ),
        bedrock.chat(
            turn(HI)
            | {"system": [], "additionalModelResponseFieldPaths": [], "guardrailConfig": None}
            | {"performanceConfig": {"latency": "standard"}, "inferenceConfig": {}},
            "m",
            False,
        ),
        cohere.chat(
            {"model": "m", "messages": [{"role": "user", "content": "hi"}], "documents": []}
            | {"safety_mode": "CONTEXTUAL", "citation_options": {"mode": "off"}, "priority": 0}
            | {"logprobs": False, "strict_tools": True, "tools": []}
        ),
    ],
)
def test_what_asks_for_nothing_says_nothing(made: Any) -> None:
    assert made[0] == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    assert not made[1].unsaid


def test_a_schema_of_google_s_is_one_of_json() -> None:
    stated: Document = {
        "type": "OBJECT", "required": ["b"], "propertyOrdering": ["b", "a"],
        "properties": {
            "a": {"type": "ARRAY", "items": {"type": "INTEGER"}, "minItems": "2"},
            "b": {"type": "STRING", "enum": ["x"], "format": "enum", "nullable": True},
        },
    }  # fmt: skip
    made, _ = gemini.chat(
        contents({"text": "hi"}) | config(**JSON, responseSchema=stated), "m", False
    )
    shape = made["response_format"]["json_schema"]
    assert "strict" not in shape, "a need not be there, which OpenAI's strict answers cannot say"
    assert [*shape["schema"]["properties"]] == ["b", "a"]
    assert shape["schema"] == {
        "type": "object", "required": ["b"], "additionalProperties": False,
        "properties": {
            "a": {"type": "array", "items": {"type": "integer"}, "minItems": 2},
            "b": {"type": ["string", "null"], "enum": ["x", None]},
        },
    }  # fmt: skip
    stated["required"] = ["a", "b"]
    made, _ = gemini.chat(
        contents({"text": "hi"}) | config(**JSON, responseSchema=stated), "m", False
    )
    assert made["response_format"]["json_schema"]["strict"] is True


def test_responses_belong_to_calls_by_name_and_order_where_they_have_no_ids() -> None:
    calls = [{"functionCall": {"name": name}} for name in ("f", "g", "f")]
    responses = [
        {"functionResponse": {"name": name, "response": {"output": text}}}
        for name, text in (("g", "1"), ("f", "2"), ("f", "3"))
    ]
    body = {
        "contents": [
            *contents({"text": "hi"})["contents"],
            *({"role": "model", "parts": [call]} for call in calls),
            {"role": "user", "parts": responses},
        ]
    }
    made, translation = gemini.chat(body, "m", False)
    _, answer, *results = made["messages"]
    ids = [call["id"] for call in answer["tool_calls"]]
    assert len(set(ids)) == 3
    assert [result["tool_call_id"] for result in results] == [ids[1], ids[0], ids[2]]
    assert [result["content"] for result in results] == ["1", "2", "3"]
    assert translation.turns == (0, 1, 4, 4, 4)


def test_google_s_own_signatures_go_back_as_they_came() -> None:
    own = base64.b64encode(b"\xfb\xff own").decode()
    extra = {"google": {signatures.SIGNATURE: own}}
    function = {"name": "f", "arguments": "{}"}
    message = {
        "content": "a", "extra_content": extra,
        "tool_calls": [{"id": "c", "function": function, "extra_content": extra}],
    }  # fmt: skip
    answer = json.loads(response(json.dumps({"choices": [{"message": message}]}).encode(), ()))
    parts = answer["candidates"][0]["content"]["parts"]
    assert [part["thoughtSignature"] for part in parts] == [own, own]
    for part in parts:
        part["thoughtSignature"] = own.translate(str.maketrans("+/", "-_"))  # as its SDK has it
    made, _ = gemini.chat(answered(*parts), "m", False)
    assert made["messages"][0]["extra_content"] == extra
    assert made["messages"][0]["tool_calls"][0]["extra_content"] == extra


def test_each_answer_of_several_is_a_candidate_of_its_own() -> None:
    choices = [
        {"index": at, "message": {"content": text}, "finish_reason": reason}
        for at, (text, reason) in enumerate((("a", "stop"), ("b", "length")))
    ]
    whole = json.loads(response(json.dumps({"choices": choices}).encode(), ()))["candidates"]
    assert [each["finishReason"] for each in whole] == ["STOP", "MAX_TOKENS"]
    writer = GenerateWriter((), events=False)
    written = b""
    for choice in choices:
        delta = {"index": choice["index"], "delta": choice["message"], "finish_reason": None}
        end = {"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"]}
        written += writer.chunk(json.dumps({"choices": [delta]}).encode())
        written += writer.chunk(json.dumps({"choices": [end]}).encode())
    streamed = json.loads(written + writer.last())
    texts = [(c["index"], c["content"]["parts"][0]["text"])
             for each in streamed[:-1] for c in each["candidates"]]  # fmt: skip
    assert texts == [(0, "a"), (1, "b")]
    assert [each["finishReason"] for each in streamed[-1]["candidates"]] == ["STOP", "MAX_TOKENS"]


def test_probabilities_are_told() -> None:
    top = [{"token": "b", "logprob": -2}]
    shown = {"content": [{"token": "a", "logprob": -0.5, "top_logprobs": top}]}
    choice = {"message": {"content": "a"}, "logprobs": shown}
    (made,) = json.loads(response(json.dumps({"choices": [choice]}).encode(), ()))["candidates"]
    assert made["logprobsResult"] == {
        "chosenCandidates": [{"token": "a", "logProbability": -0.5}],
        "topCandidates": [{"candidates": [{"token": "b", "logProbability": -2}]}],
    }


WRITERS: dict[str, Any] = {
    "google, events": lambda: GenerateWriter((), events=True),
    "google, an array": lambda: GenerateWriter((), events=False),
    "bedrock": lambda: ConverseWriter((), lambda: 1),
    "cohere": lambda: ChatWriter(()),
}


def piece(**delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode()


@pytest.mark.parametrize("made", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize(
    "data",
    [b"[1]", b"{", b'{"choices": [1]}', piece(tool_calls=[{"function": {"arguments": "{}"}}])],
)
def test_what_is_no_chunk_is_the_endpoint_s_failure(made: Any, data: bytes) -> None:
    writer: StreamWriter = made()
    with pytest.raises(UpstreamFailed):
        writer.chunk(data)


def test_an_array_that_breaks_off_is_whole_json_with_the_error_last() -> None:
    for chunks in ([], [piece(content="a")]):
        writer = GenerateWriter((), events=False)
        written = b"".join(map(writer.chunk, chunks))
        items = json.loads(written + writer.broken_off(UpstreamUnreachable("it broke")))
        assert len(items) == len(chunks) + 1
        assert items[-1]["error"]["status"] == "UNAVAILABLE"


@pytest.mark.parametrize("answer", ["[]", '{"choices": []}', '{"choices": [{"message": 1}]}'])
@pytest.mark.parametrize(
    "whole",
    [lambda b: response(b, ()), lambda b: converse(b, (), 1), lambda b: cohere_response(b, ())],
)
def test_what_is_no_answer_is_the_endpoint_s_failure(whole: Any, answer: str) -> None:
    with pytest.raises(UpstreamFailed):
        whole(answer.encode())


@pytest.mark.parametrize(
    ("reason", "google", "aws", "cohere_s"),
    [
        ({"finish_reason": "stop"}, "STOP", "end_turn", "COMPLETE"),
        ({"finish_reason": "length"}, "MAX_TOKENS", "max_tokens", "MAX_TOKENS"),
        ({"finish_reason": "tool_calls"}, "STOP", "tool_use", "TOOL_CALL"),
        ({"finish_reason": "content_filter"}, "SAFETY", "content_filtered", "ERROR"),
        ({"finish_reason": "stop", "stop_reason": "#"}, "STOP", "stop_sequence", "STOP_SEQUENCE"),
        ({"finish_reason": "stop", "native_finish_reason": "pause_turn"},
         "STOP", "end_turn", "COMPLETE"),
    ],
)  # fmt: skip
def test_why_an_answer_ends(reason: Document, google: str, aws: str, cohere_s: str) -> None:
    body = json.dumps({"choices": [{**reason, "message": {"content": "a"}}]}).encode()
    assert json.loads(response(body, "#"))["candidates"][0]["finishReason"] == google
    assert json.loads(converse(body, "#", 1))["stopReason"] == aws
    assert json.loads(cohere_response(body, "#"))["finish_reason"] == cohere_s


def test_what_embeddings_cannot_say_is_refused() -> None:
    one: Document = {"content": {"parts": [{"text": "a"}]}}
    googles: list[tuple[Document, bool, str]] = [
        ({**one, "taskType": "RETRIEVAL_QUERY"}, False, "taskType"),
        ({"content": {"parts": [{"text": "a"}, {"text": "b"}]}}, False, "content.parts"),
        ({"requests": [one, {**one, "outputDimensionality": 4}]}, True, "requests"),
        ({"requests": [{**one, "title": "t"}]}, True, "requests[0].title"),
    ]
    for body, batch, name in googles:
        with pytest.raises(InvalidField) as caught:
            embeddings.embeddings(body, "m", batch)
        assert caught.value.param == name
    others: list[tuple[Document, str]] = [
        ({"images": ["data:,"]}, "images"),
        ({"texts": ["a"], "embedding_types": ["int8"]}, "embedding_types"),
        ({"texts": ["a"], "priority": 1}, "priority"),
        ({"inputs": [{"content": [{"type": "image_url"}]}]}, "inputs[0].content[0].type"),
    ]
    for body, name in others:
        with pytest.raises(InvalidField) as caught:
            cohere_embeddings.embeddings({"model": "m", **body})
        assert caught.value.param == name


THINKING: Any = {
    "budget": ({"thinking": {"type": "enabled", "budget_tokens": 2000}},
               {"thinkingBudget": 2000, "includeThoughts": True},
               {"type": "enabled", "token_budget": 2000}),
    "adaptive": ({"thinking": {"type": "adaptive"}}, {"includeThoughts": True},
                 {"type": "enabled"}),
    "off": ({"thinking": {"type": "disabled"}, "reasoning_effort": "none"},
            {"thinkingBudget": 0}, {"type": "disabled"}),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "google", "cohere_s"), THINKING.values(), ids=THINKING)
def test_how_much_to_think_reaches_every_provider(
    fields: Document, google: Document, cohere_s: Document
) -> None:
    chat = {"messages": [{"role": "user", "content": "hi"}], **fields}
    for needs in (gemini_words.needs, cohere_words.needs):
        assert not list(needs(chat))
    assert to_gemini(chat, ServedModel("m"), json.loads)["generationConfig"] == {
        "thinkingConfig": google
    }
    assert to_cohere(chat, ServedModel("m"), False)["thinking"] == cohere_s


@pytest.mark.parametrize(
    "fields",
    [
        {"thinking": {"type": "enabled", "budget_tokens": 9}, "reasoning_effort": "high"},
        {"thinking": {"type": "disabled"}, "reasoning_effort": "high"},
        {"thinking": {"type": "between_tools"}},
        {"cache_control": {"type": "ephemeral"}},
    ],
)
def test_what_google_and_cohere_would_lose_keeps_the_call_away(fields: Document) -> None:
    chat = {"messages": [{"role": "user", "content": "hi"}], **fields}
    for needs in (gemini_words.needs, cohere_words.needs):
        assert list(needs(chat))


def test_fields_of_a_model_s_own_go_to_bedrock_together() -> None:
    own = {"thinking": {"type": "enabled", "budget_tokens": 2000}, "top_k": 4}
    chat = {"messages": [{"role": "user", "content": "hi"}], **own}
    assert to_bedrock(chat, "m", json.loads)["additionalModelRequestFields"] == own
