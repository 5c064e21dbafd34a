"""A copy of a call may go nowhere but on-prem, is bounded, and changes nothing live (K6)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway import config
from gateway.core.errors import NoEligibleEndpoint
from gateway.core.operations.chat import CHAT
from gateway.core.reply import InferenceReply, JsonBody, OneFrame, Placement
from gateway.core.types import (
    EVERYWHERE,
    ONPREM_ONLY,
    DocumentCall,
    InferenceRequest,
    Sensitivity,
    Zone,
)
from gateway.pipeline.shadow.mirror import Mirror, Mirrors, agreement
from gateway.protocols import strictjson
from tests.unit.harness import now_s, request
from tests.unit.settings_text import refusal

pytestmark = pytest.mark.anyio
PLACED = Placement(Zone.CLOUD, "cloud", "spill_queue", 1, Sensitivity.CLEAR, 0.0)


def chat(text: str) -> bytes:
    return strictjson.dumps({"choices": [{"message": {"content": text}}], "id": text[:1]})


def vectors(*numbers: float) -> bytes:
    return strictjson.dumps({"data": [{"embedding": list(numbers)}], "model": str(numbers)})


class Pipeline:
    """Answers by model, once it may."""

    def __init__(self, **answers: bytes | None) -> None:
        self.answers, self.handled = answers, []  # type: ignore[var-annotated]
        self.open = asyncio.Event()
        self.open.set()
        self.reported: list[str] = []
        self.mirrors = Mirrors(self.handle, {"live": Mirror("tried", 1.0, 2)}, self._report, now_s)

    def _report(self, model: str, what: str) -> None:
        assert model == "tried"
        self.reported.append(what)

    async def handle(self, request: InferenceRequest) -> InferenceReply:
        self.handled.append(request)
        if request.model == "tried":
            await self.open.wait()
        answer = self.answers[request.model]
        if answer is None:
            raise NoEligibleEndpoint("none")
        return InferenceReply(PLACED, OneFrame(JsonBody(answer)))

    async def call(self) -> bytes:
        live = request("clear", 9.0)
        made = InferenceRequest(
            live.id, live.protocol, "ward", "live", DocumentCall(CHAT, {"messages": []}),
            live.deadline, zones=EVERYWHERE, received_s=now_s(),
        )  # fmt: skip
        reply = await self.mirrors.handle(made)
        assert isinstance(reply.frames, OneFrame)
        frame = reply.frames.take()
        assert isinstance(frame, JsonBody)
        return frame.body

    async def all_compared(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.reported) < count:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0)


async def test_a_copy_may_go_nowhere_but_on_prem() -> None:
    pipeline = Pipeline(live=chat("a b"), tried=chat("a b"))
    assert await pipeline.call() == chat("a b")
    await pipeline.all_compared(1)
    live, copy = pipeline.handled
    assert (live.zones, copy.zones) == (EVERYWHERE, ONPREM_ONLY)
    assert (copy.model, copy.quotas, copy.priority) == ("tried", (), 9)
    assert copy.id != live.id
    assert pipeline.reported == ["same"]


async def test_only_so_many_copies_are_under_way() -> None:
    pipeline = Pipeline(live=chat("a"), tried=chat("b"))
    pipeline.open.clear()
    for _ in range(5):
        await pipeline.call()
    assert pipeline.reported == ["left_out"] * 3
    pipeline.open.set()
    await pipeline.all_compared(5)
    assert sorted(pipeline.reported) == ["different"] * 2 + ["left_out"] * 3
    await pipeline.call()
    await pipeline.all_compared(6)
    await pipeline.mirrors.aclose()


async def test_a_copy_that_fails_is_felt_by_nobody() -> None:
    pipeline = Pipeline(live=chat("a"), tried=None)
    assert await pipeline.call() == chat("a")
    await pipeline.all_compared(1)
    assert pipeline.reported == ["failed"]


TEN = "one two three four five six seven eight nine ten"


@pytest.mark.parametrize(
    ("one", "other", "how"),
    [
        (chat(TEN), chat(TEN), "same"),
        (chat(TEN), chat(TEN.replace("ten", "eleven")), "close"),
        (chat(TEN), chat("none of this"), "different"),
        (vectors(1.0, 0.0), vectors(1.0, 0.0), "same"),
        (vectors(1.0, 0.0), vectors(1.0, 0.1), "close"),
        (vectors(1.0, 0.0), vectors(0.0, 1.0), "different"),
        (vectors(1.0, 0.0), vectors(1.0), "different"),
        (chat(TEN), b"<html>", "different"),
        (strictjson.dumps({"output": [{"content": [{"text": "a"}]}], "id": "1"}),
         strictjson.dumps({"output": [{"content": [{"text": "a"}]}], "id": "2"}), "same"),
    ],
)  # fmt: skip
async def test_answers_are_compared_by_what_they_say(one: bytes, other: bytes, how: str) -> None:
    assert agreement(one, other) == how


SETTINGS = """
endpoints:
  gpu: {kind: openai, zone: onprem, url: "http://127.0.0.1:1"}
  away: {kind: openai, zone: cloud, url: "https://api.example.com"}
models:
  live: {task: generate, served_by: [{endpoint: gpu}], mirror: {model: tried}}
  tried: {task: generate, served_by: [{endpoint: gpu}]}
"""


@pytest.mark.parametrize(
    ("tried", "problem"),
    [
        ("served_by: [{endpoint: gpu}, {endpoint: away}]", "not served on-prem alone"),
        ("served_by: [{endpoint: away}]", "not served on-prem alone"),
        ("served_by: [{endpoint: gpu}], mirror: {model: live}", "has a mirror or a split itself"),
    ],
)
async def test_a_model_that_is_tried_is_served_on_prem_alone(tried: str, problem: str) -> None:
    assert config.parse(SETTINGS).models["live"].mirror is not None
    head, _, _ = SETTINGS.rpartition("  tried:")
    text: Any = f"{head}  tried: {{task: generate, {tried}}}\n"
    assert problem in refusal(text)
