"""The connectors of kinds gemini and cohere against APIs of their own on real sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.config import EndpointSettings
from gateway.core import timeouts
from gateway.core.errors import (
    UpstreamBusy,
    UpstreamError,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamUnreachable,
)
from gateway.core.operations.chat import CHAT
from gateway.core.reply import JsonBody, ServerEvent
from gateway.core.types import CLOUD, ServedModel, Usage
from gateway.endpoints.connectors import Connector
from gateway.endpoints.connectors.kinds import build_connector
from gateway.endpoints.connectors.openai.dialects.cohere.events import ChatEvents
from gateway.endpoints.connectors.openai.dialects.gemini import Gemini
from gateway.endpoints.connectors.openai.dialects.gemini.events import CandidateEvents
from gateway.endpoints.connectors.openai.event_stream import NO_SECRETS, Progress
from tests import cohere_api, gemini_api
from tests.unit.backends.test_anthropic_connector import (
    Document,
    all_of,
    asked,
    chunks_of,
    joined,
)

pytestmark = pytest.mark.anyio

SERVED = ServedModel(gemini_api.MODEL)
WAITS_S = 30.0
SIGNED = {"google": {"thought_signature": "c2ln"}}


@dataclass
class Rig:
    gemini: gemini_api.GeminiApi
    cohere: cohere_api.CohereApi
    connectors: dict[str, Connector]

    async def open(self, kind: str, streamed: bool = False, **changes: Any) -> Any:
        with timeouts.within(WAITS_S):
            return await self.connectors[kind].open(asked(streamed, **changes), SERVED)

    async def completion(self, kind: str) -> Document:
        (frame,) = await all_of(await self.open(kind))
        assert isinstance(frame, JsonBody)
        made: Document = json.loads(frame.body)
        return made

    async def chunks(self, kind: str, **changes: Any) -> list[Document]:
        return chunks_of(await all_of(await self.open(kind, True, **changes)))


@pytest.fixture(scope="module")
def apis() -> Iterator[tuple[gemini_api.GeminiApi, cohere_api.CohereApi]]:
    with gemini_api.gemini_api() as gemini, cohere_api.cohere_api() as cohere:
        yield gemini, cohere


@pytest.fixture
async def rig(apis: tuple[gemini_api.GeminiApi, cohere_api.CohereApi]) -> AsyncIterator[Rig]:
    gemini, cohere = apis
    keys = {"gemini": (gemini.url, gemini_api.KEY), "cohere": (cohere.url, cohere_api.KEY)}
    connectors = {kind: connector(kind, url, key) for kind, (url, key) in keys.items()}
    yield Rig(gemini, cohere, connectors)
    for each in connectors.values():
        await each.aclose()


def connector(kind: str, url: str, key: str) -> Connector:
    document = {"kind": kind, "zone": CLOUD, "url": url, "api_key": key}
    return build_connector(EndpointSettings.model_validate(document), None)


async def test_a_whole_answer_of_gemini_is_a_chat_completion(rig: Rig) -> None:
    parts = [
        gemini_api.text("Hm.", thought=True),
        gemini_api.text("Two calls: "),
        gemini_api.text("ok.", thoughtSignature="c2ln"),
        gemini_api.calls("f", "c2ln", "c1", a=[1, "é"]),
        gemini_api.calls("g"),
    ]
    usage = {
        "promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 9,
        "thoughtsTokenCount": 4, "toolUsePromptTokenCount": 2, "totalTokenCount": 115,
    }  # fmt: skip
    rig.gemini.reply = lambda document: gemini_api.Reply([parts], usage=usage)
    made = await rig.completion("gemini")
    (choice,) = made["choices"]
    first, second = choice["message"].pop("tool_calls")
    assert choice["message"] == {
        "role": "assistant", "content": "Two calls: ok.", "refusal": None,
        "reasoning_content": "Hm.", "extra_content": SIGNED,
    }  # fmt: skip
    assert first == {
        "id": "c1", "type": "function", "extra_content": SIGNED,
        "function": {"name": "f", "arguments": '{"a":[1,"é"]}'},
    }  # fmt: skip
    assert second["id"].startswith("call_")
    assert second["function"] == {"name": "g", "arguments": "{}"}
    assert choice["finish_reason"] == "tool_calls"
    assert (made["id"], made["model"]) == ("r1", gemini_api.MODEL)
    assert made["usage"] == {
        "prompt_tokens": 102, "completion_tokens": 13, "total_tokens": 115,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }  # fmt: skip


async def test_a_stream_of_gemini_says_the_same_event_by_event(rig: Rig) -> None:
    parts = [
        gemini_api.text("Hmmm.", thought=True),
        gemini_api.text("A ", thoughtSignature="YQ=="),
        gemini_api.text("moment.", thoughtSignature="c2ln"),
        gemini_api.calls("f", "c2ln", "c1", a=1),
        gemini_api.calls("g", "", "c2"),
    ]
    rig.gemini.reply = lambda document: gemini_api.Reply([parts])
    stream = await rig.open("gemini", True, stream_options={"include_usage": True})
    chunks = chunks_of(await all_of(stream))
    assert stream.usage == Usage(7, 5, 0)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["total_tokens"] == 12
    first = chunks[0]["choices"][0]["delta"]
    assert (first["role"], first["content"], first["reasoning_content"]) == ("assistant", "", "Hmm")
    signed = [c["choices"][0]["delta"].get("extra_content") for c in chunks[:-1]]
    assert signed == [None] * (len(signed) - 1) + [SIGNED]  # which callers would join
    whole = (await rig.completion("gemini"))["choices"][0]
    message = joined(chunks)
    assert message.pop("finish_reason") == whole["finish_reason"] == "tool_calls"
    for at, call in enumerate(message["tool_calls"]):
        assert call.pop("index") == at
    assert message.items() <= whole["message"].items()


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_long_number_in_arguments_is_not_rounded(rig: Rig, streamed: bool) -> None:
    parts = [gemini_api.calls("f", "", "c1", a=1 << 80)]
    rig.gemini.reply = lambda document: gemini_api.Reply([parts])
    if streamed:
        (call,) = joined(await rig.chunks("gemini"))["tool_calls"]
    else:
        (call,) = (await rig.completion("gemini"))["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"a": 1 << 80}


async def test_answers_of_one_call_are_told_apart(rig: Rig) -> None:
    two = [[gemini_api.text("Line four.")], [gemini_api.text("By foot.")]]
    rig.gemini.reply = lambda document: gemini_api.Reply(two)
    whole = await rig.completion("gemini")
    said = [choice["message"]["content"] for choice in whole["choices"]]
    pieces = ["", ""]
    chunks = await rig.chunks("gemini", n=2)
    for choice in [choice for chunk in chunks for choice in chunk["choices"]]:
        pieces[choice["index"]] += choice["delta"].get("content") or ""
    assert pieces == said == ["Line four.", "By foot."]


async def test_log_probabilities_are_those_of_tokens(rig: Rig) -> None:
    token = {"token": "é", "logProbability": -0.5, "tokenId": 3}
    stated = {"chosenCandidates": [token], "topCandidates": [{"candidates": [token]}]}
    rig.gemini.reply = lambda document: gemini_api.Reply([[gemini_api.text("é")]], logprobs=stated)
    one = {"token": "é", "logprob": -0.5, "bytes": [195, 169]}
    expected = {"content": [{**one, "top_logprobs": [one]}], "refusal": None}
    assert (await rig.completion("gemini"))["choices"][0]["logprobs"] == expected
    assert (await rig.chunks("gemini"))[-1]["choices"][0]["logprobs"] == expected


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("kind", "reason", "finish"),
    [
        ("gemini", "STOP", "stop"), ("gemini", "MAX_TOKENS", "length"),
        ("gemini", "SAFETY", "content_filter"), ("gemini", "RECITATION", "content_filter"),
        ("gemini", "OTHER", "stop"), ("gemini", "MALFORMED_FUNCTION_CALL", ""),
        ("cohere", "COMPLETE", "stop"), ("cohere", "STOP_SEQUENCE", "stop"),
        ("cohere", "MAX_TOKENS", "length"), ("cohere", "TOOL_CALL", "tool_calls"),
        ("cohere", "LATER", "stop"), ("cohere", "ERROR", ""), ("cohere", "TIMEOUT", ""),
    ],
)  # fmt: skip
async def test_why_an_answer_ends(
    rig: Rig, kind: str, reason: str, finish: str, streamed: bool
) -> None:
    rig.gemini.reply = lambda document: gemini_api.Reply([[gemini_api.text("x")]], reason)
    rig.cohere.reply = lambda document: cohere_api.Reply([cohere_api.text("x")], finish=reason)
    if not finish:
        with pytest.raises(UpstreamFailed, match="broke off") as caught:
            await (rig.chunks(kind) if streamed else rig.completion(kind))
        assert caught.value.transient
    elif streamed:
        assert joined(await rig.chunks(kind))["finish_reason"] == finish
    else:
        assert (await rig.completion(kind))["choices"][0]["finish_reason"] == finish


async def test_what_a_filter_says_of_the_end_is_the_refusal(rig: Rig) -> None:
    rig.gemini.reply = lambda document: gemini_api.Reply([[gemini_api.text("x")]], "SAFETY")
    message = (await rig.completion("gemini"))["choices"][0]["message"]
    assert (message["content"], message["refusal"]) == ("x", "That would harm.")
    last = (await rig.chunks("gemini"))[-1]["choices"][0]["delta"]
    assert last == {"refusal": "That would harm."}


async def test_a_call_that_is_not_let_through_is_refused_by_a_filter(rig: Rig) -> None:
    rig.gemini.reply = lambda document: gemini_api.Reply(blocked="PROHIBITED_CONTENT")
    choice = (await rig.completion("gemini"))["choices"][0]
    assert choice["finish_reason"] == "content_filter"
    assert choice["message"]["refusal"] == "That is forbidden."
    (chunk,) = await rig.chunks("gemini")
    assert chunk["choices"][0]["finish_reason"] == "content_filter"
    assert chunk["choices"][0]["delta"]["refusal"] == "That is forbidden."


async def test_an_answer_of_cohere_is_a_chat_completion_whole_and_in_a_stream(rig: Rig) -> None:
    reply = cohere_api.Reply(
        [cohere_api.thinking("Hm, a tram."), cohere_api.text("Line four.")],
        [cohere_api.call("f", a=[1]), cohere_api.call("g", "trams_2")],
        "I will see.",
        "TOOL_CALL",
    )
    rig.cohere.reply = lambda document: reply
    made = await rig.completion("cohere")
    (choice,) = made["choices"]
    assert choice["message"]["content"] == "I will see.Line four."
    assert choice["message"]["reasoning_content"] == "Hm, a tram."
    given = [call["function"]["arguments"] for call in choice["message"]["tool_calls"]]
    assert given == ['{"a": [1]}', "{}"]
    assert (made["id"], made["model"]) == ("c1", SERVED.model)
    assert made["usage"]["total_tokens"] == 12
    assert made["usage"]["prompt_tokens_details"] == {"cached_tokens": 3}
    stream = await rig.open("cohere", True, stream_options={"include_usage": True})
    chunks = chunks_of(await all_of(stream))
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert {chunk["model"] for chunk in chunks} == {SERVED.model}
    assert (chunks[-1]["choices"], chunks[-1]["usage"]) == ([], made["usage"])
    assert stream.usage == Usage(7, 5, 3)
    message = joined(chunks)
    assert message.pop("finish_reason") == "tool_calls"
    for at, call in enumerate(message["tool_calls"]):
        assert call.pop("index") == at
    assert message.items() <= choice["message"].items()


RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3.5s"}
DAILY = {"@type": "type.googleapis.com/google.rpc.QuotaFailure",
         "violations": [{"quotaId": "RequestsPerDayPerProject"}]}  # fmt: skip
WRONG_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("status", "code", "details", "kind", "reason", "again"),
    [
        (429, "RESOURCE_EXHAUSTED", [RETRY], UpstreamBusy, "upstream_busy", True),
        (429, "RESOURCE_EXHAUSTED", [RETRY, DAILY], UpstreamBusy, "upstream_busy", False),
        (503, "UNAVAILABLE", [RETRY], UpstreamFailed, "upstream_failed", True),
        (500, "INTERNAL", [], UpstreamFailed, "upstream_failed", True),
        (400, "INVALID_ARGUMENT", [], UpstreamRefused, "upstream_refused", False),
        (400, "INVALID_ARGUMENT", [WRONG_KEY], UpstreamFailed, "upstream_credentials", False),
        (400, "FAILED_PRECONDITION", [], UpstreamFailed, "upstream_credentials", False),
        (403, "PERMISSION_DENIED", [], UpstreamFailed, "upstream_credentials", False),
        (401, "UNAUTHENTICATED", [], UpstreamFailed, "upstream_credentials", False),
        (404, "NOT_FOUND", [], UpstreamRefused, "upstream_refused", False),
    ],
)
async def test_a_failure_of_gemini_has_its_class(
    rig: Rig,
    status: int,
    code: str,
    details: list[Document],
    kind: type[UpstreamError],
    reason: str,
    again: bool,
    streamed: bool,
) -> None:
    rig.gemini.reply = lambda document: gemini_api.Reply(status=status, error=code, details=details)
    with pytest.raises(UpstreamError) as caught:
        await rig.open("gemini", streamed)
    failure = caught.value
    assert (type(failure), failure.reason, failure.transient) == (kind, reason, again)
    assert "Not now." not in failure.message
    assert failure.retry_after_s == (3.5 if RETRY in details else None)
    if isinstance(failure, UpstreamRefused):
        error = json.loads(failure.body or b"")["error"]
        assert error == {
            "message": "Not now.", "type": "invalid_request_error", "param": None, "code": code,
        }  # fmt: skip


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"error": "x"}', b'[{"error": []}]'])
def test_a_failure_without_its_words_has_the_class_of_its_status(body: bytes) -> None:
    assert type(Gemini().failure(429, {}, body, NO_SECRETS)) is UpstreamBusy
    assert type(Gemini().failure(400, {}, body, NO_SECRETS)) is UpstreamRefused


def test_a_failure_in_a_list_is_read() -> None:
    error = {"code": 400, "message": "Not so.", "status": "INVALID_ARGUMENT", "details": [1]}
    made = Gemini().failure(400, {}, json.dumps([{"error": error}]).encode(), NO_SECRETS)
    assert isinstance(made, UpstreamRefused)
    assert json.loads(made.body or b"")["error"]["message"] == "Not so."


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [
        (429, UpstreamBusy, "upstream_busy"),
        (401, UpstreamFailed, "upstream_credentials"),
        (403, UpstreamFailed, "upstream_credentials"),
        (400, UpstreamRefused, "upstream_refused"),
        (422, UpstreamRefused, "upstream_refused"),
        (498, UpstreamRefused, "upstream_refused"),
        (503, UpstreamFailed, "upstream_failed"),
    ],
)
async def test_a_failure_of_cohere_has_its_class(
    rig: Rig, status: int, kind: type[UpstreamError], reason: str
) -> None:
    waits = {"retry-after": "3"}
    rig.cohere.reply = lambda document: cohere_api.Reply(status=status, headers=waits)
    with pytest.raises(UpstreamError) as caught:
        await rig.open("cohere")
    assert (type(caught.value), caught.value.reason) == (kind, reason)
    if isinstance(caught.value, UpstreamRefused):
        assert json.loads(caught.value.body or b"")["error"]["message"] == "Not now."
    if status == 429:
        assert caught.value.retry_after_s == 3.0


@pytest.mark.parametrize("events", [0, 1, 2, -1])
@pytest.mark.parametrize("kind", ["gemini", "cohere"])
async def test_a_stream_without_its_last_event_is_broken(rig: Rig, kind: str, events: int) -> None:
    rig.gemini.reply = lambda d: gemini_api.Reply([[gemini_api.text("Hello.")]], events=events)
    rig.cohere.reply = lambda d: cohere_api.Reply([cohere_api.text("Hello.")], events=events)
    with pytest.raises(UpstreamUnreachable):
        await rig.chunks(kind)


async def test_an_error_within_a_stream_ends_it(rig: Rig) -> None:
    rig.gemini.reply = lambda document: gemini_api.Reply(
        [[gemini_api.text("Hello.")]], events=1, error="UNAVAILABLE"
    )
    with pytest.raises(UpstreamFailed) as caught:
        await rig.chunks("gemini")
    assert type(caught.value) is UpstreamFailed


@pytest.mark.parametrize(
    "event",
    [
        "[]", "nothing", '{"candidates": ["x"]}', '{"functionCall": 1, "functionCall": 2}',
        '{"candidates": [{"content": {"parts": [{"executableCode": {}}]}}]}',
        '{"candidates": [{"content": {"parts": ["x"]}}]}',
        '{"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", '
        '"willContinue": true}}]}}]}',
        '{"candidates": [{"content": {"parts": [{"inlineData": {}}]}}]}',
    ],
)  # fmt: skip
def test_what_is_no_event_of_gemini_breaks_the_stream(event: str) -> None:
    with pytest.raises(UpstreamFailed):
        CandidateEvents(False, "m").read(ServerEvent(event.encode()), Progress(CHAT))


@pytest.mark.parametrize(
    "event",
    [
        "[]", '{"type": "content-delta"}', '{"type": "content-delta", "delta": {"message": {}}}',
        '{"type": "tool-call-start", "delta": {"message": {"tool_calls": {}}}}',
        '{"type": "tool-call-delta", "delta": {"message": null}}', '{"type": "message-end"}',
        '{"type": "tool-plan-delta", "delta": {"message": {"tool_plan": 1}}}',
        '{"type": "tool-plan-delta", "delta": {"message": ["x"]}}',
        '{"type": "content-delta", "delta": {"message": {"content": {"text": "x"}}}}',
    ],
)  # fmt: skip
def test_what_is_no_event_of_cohere_breaks_the_stream(event: str) -> None:
    with pytest.raises(UpstreamFailed):
        ChatEvents(False, "m").read(ServerEvent(event.encode()), Progress(CHAT))


def test_an_answer_that_names_neither_itself_nor_its_model_has_both_names() -> None:
    answer = {"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}]}
    body = json.dumps(answer).encode()
    whole = Gemini().answer(body, NO_SECRETS, "m")
    chunk = json.loads(CandidateEvents(False, "m").read(ServerEvent(body), Progress(CHAT))[0])
    for made in (whole, chunk):
        assert made["id"].startswith("chatcmpl-")
        assert made["model"] == "m"


def test_events_of_citations_and_of_later_days_say_nothing() -> None:
    reader, progress = ChatEvents(False, "m"), Progress(CHAT)
    for kind in ("citation-start", "citation-end", "of_a_later_day", "content-end"):
        event = ServerEvent(json.dumps({"type": kind, "delta": {}}).encode())
        assert reader.read(event, progress) == ()


@pytest.mark.parametrize("kind", ["gemini", "cohere"])
async def test_the_probe_says_whether_the_endpoint_is_there(rig: Rig, kind: str) -> None:
    assert await rig.connectors[kind].ready()
    away = connector(kind, "http://127.0.0.1:9", "k-0123456789")
    assert not await away.ready()
    await away.aclose()


async def test_a_key_that_is_wrong_is_the_gateway_s_fault_and_in_no_failure(rig: Rig) -> None:
    other = connector("gemini", rig.gemini.url, "AIzaWRONG0123456789")
    with pytest.raises(UpstreamFailed) as caught:
        await other.open(asked(), SERVED)
    assert caught.value.reason == "upstream_credentials"
    assert "AIza" not in str(caught.value)
    await other.aclose()
