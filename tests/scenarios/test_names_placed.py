"""Calls through a gateway whose names are on its own Triton, and nothing of them in the cloud."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.demo.cloud.process import SimulatedCloud
from tests.live import LiveGateway, LoopThread, serving, settings, wait_until

NAMED = "Please write to Margaret Whitfield about her appointment on Monday."
CALM = "Summarise the water cycle in two sentences."


@pytest.fixture(scope="module")
def house(
    outside: SimulatedCloud, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveGateway]:
    scratch: Path = tmp_path_factory.mktemp("names")
    names = {"engine": "triton", "endpoint": "local", "when": "always"}
    classify = {"names": names, "budget_ms": 2000}
    document = settings(outside, scratch, ["names"], ["scribe"], classify=classify)
    with serving(document, scratch) as gateway:
        yield gateway


def chat(gateway: LiveGateway, text: str) -> httpx.Response:
    body = {"model": "scribe", "max_tokens": 4, "messages": [{"role": "user", "content": text}]}
    return gateway.client.post("/v1/chat/completions", json=body)


def sensitivity(answer: httpx.Response) -> str:
    return str(answer.headers.get("x-spillway-sensitivity"))


def test_a_name_restricts_and_its_absence_clears(
    house: LiveGateway, outside: SimulatedCloud, loop_thread: LoopThread
) -> None:
    """A busy machine may make a verdict late, which restricts; one in time follows."""
    wait_until(lambda: sensitivity(chat(house, CALM)) == "clear", 60)
    verdicts: list[dict[str, Any]] = []

    def in_time() -> bool:
        named = chat(house, NAMED)
        assert sensitivity(named) == "restricted"
        verdicts.append(house.record(named.headers["x-request-id"]))
        return verdicts[-1]["classify_reason"] not in ("late", "busy", "failed")

    wait_until(in_time, 60)
    assert verdicts[-1]["entities"] == {"PERSON": 1}
    assert verdicts[-1]["zones"] in (["onprem"], [])
    assert loop_thread.run(outside.search(["Whitfield"])) == []


def test_while_the_model_cannot_be_asked_every_call_is_restricted(
    house: LiveGateway, outside: SimulatedCloud, loop_thread: LoopThread
) -> None:
    """Also one that names nobody, but that the gate leaves to the model: nobody has read it."""
    marker = "Zephyrine Lanterns over quiet harbours"
    pid = house.triton_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        answer = chat(house, marker)
    finally:
        os.kill(pid, signal.SIGCONT)
    record = house.record(answer.headers["x-request-id"])
    assert record["sensitivity"] == "restricted"
    assert record["classify_reason"] in ("late", "failed")
    assert loop_thread.run(outside.search([marker])) == []
    wait_until(lambda: sensitivity(chat(house, CALM)) == "clear", 60)
    wait_until(lambda: chat(house, NAMED).status_code == 200, 60)  # not ejected any more
