"""The anthropic SDK, unmodified, served by a text model on the premises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

HELLO: Any = [{"role": "user", "content": "Say hello."}]


@pytest.fixture
def client(gateway_url: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=gateway_url, api_key="none", max_retries=0) as client:
        yield client


def test_a_message_is_answered_with_its_placement(client: anthropic.Anthropic) -> None:
    raw = client.messages.with_raw_response.create(
        model="scribe", messages=HELLO, max_tokens=8, system="Be brief."
    )
    answer = raw.parse()
    (block,) = answer.content
    assert block.type == "text"
    assert answer.stop_reason in ("end_turn", "max_tokens")
    assert answer.usage.output_tokens > 0
    assert raw.headers["x-spillway-zone"] in ("onprem", "cloud")
    assert raw.headers["x-request-id"] == answer._request_id


def test_a_message_is_streamed_to_its_end(client: anthropic.Anthropic) -> None:
    with client.messages.stream(model="scribe", messages=HELLO, max_tokens=8) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert text
    assert message.stop_reason in ("end_turn", "max_tokens")
    assert message.usage.output_tokens > 0


@pytest.mark.anyio
async def test_a_message_is_answered_to_who_waits_otherwise(gateway_url: str) -> None:
    async with anthropic.AsyncAnthropic(
        base_url=gateway_url, api_key="none", max_retries=0
    ) as client:
        answer = await client.messages.create(model="scribe", messages=HELLO, max_tokens=8)
    assert answer.content


def test_models_are_listed(client: anthropic.Anthropic) -> None:
    assert "scribe" in {model.id for model in client.models.list()}
