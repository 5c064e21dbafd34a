"""Usage of streams is asked of every provider, and shown to callers who asked for it themselves."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.core.deadline import Deadline
from gateway.core.errors import UpstreamRefused
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.reply import ServerEvent, ServerEvents
from gateway.core.types import DocumentCall, InferenceRequest, ServedModel, Usage, WireProtocol
from gateway.endpoints.connectors.openai.provider import OpenAiConnector, endpoint_origin
from gateway.endpoints.connectors.openai.usage import token_counts
from gateway.protocols.http_client.wire import ConnectionPool
from tests.unit.backends.wire_rig import Peer, answer, listening

pytestmark = pytest.mark.anyio

SAID: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
WORD = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}
END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
COUNTS = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
USAGE = {"choices": [], "usage": COUNTS}


class Provider:
    """Gives usage where it is asked to, if it knows that; `refuses` what it does not know."""

    def __init__(self, *, knows: bool = True, refuses: bytes = b"") -> None:
        self.knows, self.refuses = knows, refuses
        self.documents: list[dict[str, Any]] = []

    async def play(self, peer: Peer) -> None:
        while True:
            _, _, body = (await peer.request()).partition(b"\r\n\r\n")
            document = json.loads(body)
            self.documents.append(document)
            options = document.get("stream_options")
            if options and self.refuses:
                await peer.say(answer(self.refuses, b"400 Bad Request"))
                continue
            asked = bool(options) and options.get("include_usage") is True
            events = [WORD, END, *([USAGE] if asked and self.knows else [])]
            text = b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in events)
            await peer.say(
                answer(text + b"data: [DONE]\n\n", extra=b"content-type: text/event-stream\r\n")
            )


@asynccontextmanager
async def connected(provider: Provider) -> AsyncIterator[OpenAiConnector]:
    async with listening(provider.play) as server:
        origin = endpoint_origin(f"http://127.0.0.1:{server.port}")
        connector = OpenAiConnector(ConnectionPool(origin, connect_timeout_s=5.0))
        try:
            yield connector
        finally:
            await connector.aclose()


async def stream(
    connector: OpenAiConnector, operation: OperationSpec = CHAT, **more: Any
) -> tuple[list[Any], int | None]:
    """The documents that the caller gets, and the tokens that are counted."""
    request = InferenceRequest(
        id="0a0b0c0d-0000-4000-8000-000000000001",
        protocol=WireProtocol.OPENAI,
        tenant="t",
        model="m",
        payload=DocumentCall(operation, {**SAID, **more}, True),
        deadline=Deadline.after(5.0),
    )
    reply = await connector.open(request, ServedModel("there"))
    events = [
        json.loads(event.data)
        async for frame in reply
        if isinstance(frame, ServerEvent | ServerEvents)
        for event in (frame.apart() if isinstance(frame, ServerEvents) else (frame,))
    ]
    return events, reply.total_tokens


@pytest.mark.parametrize("operation", [CHAT, COMPLETIONS])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"stream_options": None},
        {"stream_options": {}},
        {"stream_options": {"include_usage": False, "x": 1}},
    ],
)
async def test_usage_that_nobody_asked_for_is_counted_and_not_shown(
    more: dict[str, Any], operation: OperationSpec
) -> None:
    provider = Provider()
    async with connected(provider) as connector:
        assert await stream(connector, operation, **more) == ([WORD, END], 5)
    options = provider.documents[0]["stream_options"]
    assert options == {**(more.get("stream_options") or {}), "include_usage": True}


async def test_usage_that_was_asked_for_is_shown() -> None:
    async with connected(Provider()) as connector:
        events = await stream(connector, stream_options={"include_usage": True})
        assert events == ([WORD, END, USAGE], 5)


async def test_a_provider_that_ignores_the_question_is_served_from_all_the_same() -> None:
    async with connected(Provider(knows=False)) as connector:
        assert await stream(connector) == ([WORD, END], None)


async def test_a_provider_that_refuses_the_question_is_asked_it_once() -> None:
    provider = Provider(refuses=b'{"error":{"message":"unknown field stream_options"}}')
    async with connected(provider) as connector:
        for _ in range(3):
            assert await stream(connector) == ([WORD, END], None)
    assert ["stream_options" in each for each in provider.documents] == [True, False, False, False]


@pytest.mark.parametrize("more", [{}, {"stream_options": {"x": 1}}])
async def test_a_refusal_of_something_else_is_the_callers(more: dict[str, Any]) -> None:
    """And so is one of options that the caller sent."""
    words = b"stream_options.x" if more else b"messages"
    provider = Provider(refuses=b'{"error":{"message":"no %b"}}' % words)
    async with connected(provider) as connector:
        with pytest.raises(UpstreamRefused) as refusal:
            await stream(connector, **more)
    assert refusal.value.body == provider.refuses
    assert len(provider.documents) == 1


async def test_responses_have_no_such_option() -> None:
    provider = Provider()
    async with connected(provider) as connector:
        with pytest.raises(Exception, match="broke off"):
            await stream(connector, RESPONSES)
    assert "stream_options" not in provider.documents[0]


@pytest.mark.parametrize(
    ("usage", "writes", "total", "parts"),
    [
        ({"prompt_tokens": 400, "completion_tokens": 60, "total_tokens": 460}, True, 460,
         Usage(400, 60)),
        ({"prompt_tokens": 400, "completion_tokens": 60, "total_tokens": 460,
          "prompt_tokens_details": {"cached_tokens": 128}}, True, 460, Usage(400, 60, 128)),
        ({"input_tokens": 4, "output_tokens": 6, "total_tokens": 10,
          "input_tokens_details": {"cached_tokens": 9}}, True, 10, Usage(4, 6, 4)),
        ({"prompt_tokens": 7, "total_tokens": 7}, False, 7, Usage(7, 0)),  # embeddings
        ({"total_tokens": 7}, False, 7, Usage(7, 0)),  # of a rerank by Jina
        ({"total_tokens": 7}, True, 7, None),
        ({"prompt_tokens": 4, "total_tokens": 10}, True, 10, Usage(4, 6)),
        ({"prompt_tokens": -1, "total_tokens": 3}, True, 3, None),
        ({"prompt_tokens": 4, "completion_tokens": -1, "total_tokens": 6}, True, 6, Usage(4, 2)),
        ({"prompt_tokens": True, "total_tokens": "7"}, True, None, None),
        ({"prompt_tokens": 10**10, "completion_tokens": 1.0}, True, None, Usage(10**9, 0)),
        ({"prompt_tokens": 4, "prompt_tokens_details": 7}, True, None, Usage(4, 0)),
    ],
)  # fmt: skip
def test_counts_are_read_by_whichever_name_they_have(
    usage: dict[str, Any], writes: bool, total: int | None, parts: Usage | None
) -> None:
    assert token_counts(usage, writes) == (total, parts)
