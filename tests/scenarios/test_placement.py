"""Real calls through the real gateway: where they go, whatever fails (M1, M4, S7, A5)."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.grpc import service_pb2, service_pb2_grpc

from gateway.demo.cloud.process import SimulatedCloud
from tests.live import LiveGateway, LoopThread, serving, settings, wait_until

CARD = "4111 1111 1111 1111"
CALM = "Summarise the water cycle in two sentences."


@pytest.fixture(scope="module")
def house(
    outside: SimulatedCloud, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveGateway]:
    """A gateway of its own: these tests stop and kill its Triton."""
    scratch = tmp_path_factory.mktemp("house")
    with serving(settings(outside, scratch, only=["minilm", "scribe"]), scratch) as gateway:
        yield gateway


def chat(gateway: LiveGateway, text: str, **headers: str) -> httpx.Response:
    body = {"model": "scribe", "max_tokens": 4, "messages": [{"role": "user", "content": text}]}
    return gateway.client.post("/v1/chat/completions", json=body, headers=headers)


def embed_rest(gateway: LiveGateway, text: str, **headers: str) -> httpx.Response:
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": [text]}
    return gateway.client.post(
        "/v2/models/minilm/infer", json={"inputs": [tensor]}, headers=headers
    )


def embed_grpc(gateway: LiveGateway, text: str) -> tuple[str, dict[str, str]]:
    """The status code, and what the gateway told in trailing metadata."""
    tensor = grpcclient.InferInput("text", [1, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[text.encode()]], dtype=np.object_))
    request = service_pb2.ModelInferRequest(model_name="minilm")
    request.inputs.append(tensor._get_tensor())
    request.raw_input_contents.append(tensor._get_content())
    with grpc.insecure_channel(gateway.grpc_target) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        call: Any = stub.ModelInfer.future(request, timeout=20)
        return call.code().name, dict(call.trailing_metadata() or ())


def leaks(loop: LoopThread, cloud: SimulatedCloud) -> list[Any]:
    return list(loop.run(cloud.search([CARD, CARD.replace(" ", "")])))


def _stays_in(call: Any, house: LiveGateway) -> bool:
    """A clear call too: while the house still counts as slow, it would rather be spilled."""
    restricted, clear = call(house, f"charge {CARD}"), call(house, CALM)
    return bool(restricted.status_code == 200 and clear.headers["x-spillway-zone"] == "onprem")


@pytest.fixture(autouse=True)
def well(house: LiveGateway) -> None:
    """Each model comes back by a canary of its own: the test before may have ended between two."""
    for call in (chat, embed_rest):
        wait_until(functools.partial(_stays_in, call, house), 60)


@pytest.mark.parametrize("call", [chat, embed_rest])
def test_every_answer_says_where_it_came_from(house: LiveGateway, call: Any) -> None:
    for text, sensitivity in ((CALM, "clear"), (f"charge {CARD}", "restricted")):
        told = call(house, text).headers
        assert told["x-spillway-zone"] == "onprem", told["x-spillway-reason"]
        assert told["x-spillway-endpoint"] == "local"
        assert told["x-spillway-sensitivity"] == sensitivity
        assert told["x-spillway-attempts"] == "1"
        assert told["x-spillway-reason"]
        assert float(told["x-spillway-classify-ms"]) >= 0
        assert house.record(told["x-request-id"])["sensitivity"] == sensitivity


def test_grpc_says_it_in_trailing_metadata(house: LiveGateway) -> None:
    code, told = embed_grpc(house, f"charge {CARD}")
    assert code == "OK"
    assert told["x-spillway-zone"] == "onprem"
    assert told["x-spillway-sensitivity"] == "restricted"
    assert told["x-spillway-attempts"] == "1"


def test_a_client_can_keep_a_clear_call_in_but_never_send_a_restricted_one_out(
    house: LiveGateway, outside: SimulatedCloud, loop_thread: LoopThread
) -> None:
    kept = chat(house, CALM, **{"x-spillway-placement": "onprem"})
    assert kept.headers["x-spillway-zone"] == "onprem"
    asked = chat(house, f"charge {CARD}", **{"x-spillway-placement": "cloud"})
    assert asked.headers["x-spillway-zone"] == "onprem"
    body = {
        "model": "cloud/scribe",
        "messages": [{"role": "user", "content": CARD}],
        "fallbacks": ["cloud/scribe"],
    }
    assert house.client.post("/v1/chat/completions", json=body).status_code == 404
    assert not leaks(loop_thread, outside)


def test_a_stopped_triton_sends_clear_calls_out_and_refuses_restricted_ones(
    house: LiveGateway, outside: SimulatedCloud, loop_thread: LoopThread
) -> None:
    """SIGSTOP: connections still open, nothing answers (DESIGN.md, "Triton's readiness lies")."""
    pid = house.triton_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: chat(house, CALM).headers.get("x-spillway-zone") == "cloud", 30)
        spilled = embed_rest(house, CALM)
        assert spilled.status_code == 200
        assert spilled.headers["x-spillway-zone"] == "cloud"
        for call in (chat, embed_rest):
            refused = call(house, f"charge {CARD}")
            assert refused.status_code == 503
            assert refused.headers["x-spillway-reason"] == "onprem_unavailable_restricted"
            assert int(refused.headers["retry-after"]) >= 1
        code, told = embed_grpc(house, f"charge {CARD}")
        assert code == "UNAVAILABLE"
        assert told["x-spillway-reason"] == "onprem_unavailable_restricted"
    finally:
        os.kill(pid, signal.SIGCONT)
    assert not leaks(loop_thread, outside)


def test_a_killed_triton_comes_back_and_nothing_restricted_left_meanwhile(
    house: LiveGateway, outside: SimulatedCloud, loop_thread: LoopThread
) -> None:
    os.kill(house.triton_pid(), signal.SIGKILL)
    seen: set[tuple[str, int]] = set()
    for _ in range(20):
        seen.add(("restricted", embed_rest(house, f"charge {CARD}").status_code))
        seen.add(("clear", embed_rest(house, CALM).status_code))
    assert seen <= {("restricted", 503), ("restricted", 200), ("clear", 200)}
    wait_until(lambda: embed_rest(house, f"charge {CARD}").status_code == 200, 60)
    wait_until(lambda: embed_rest(house, CALM).headers["x-spillway-zone"] == "onprem", 60)
    assert not leaks(loop_thread, outside)


def test_a_model_whose_process_died_is_restarted(house: LiveGateway) -> None:
    """Triton stays ready while every inference of the model fails: it has gone gray."""
    triton = house.triton_pid()
    for child in (
        int(p) for p in Path(f"/proc/{triton}/task/{triton}/children").read_text().split()
    ):
        if b"minilm" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(child, signal.SIGKILL)
    wait_until(lambda: embed_rest(house, f"charge {CARD}").status_code == 200, 60)
    wait_until(lambda: house.triton_pid() != triton, 60)
    wait_until(lambda: embed_rest(house, f"charge {CARD}").status_code == 200, 60)


def test_no_record_ever_shows_a_restricted_call_in_the_cloud(house: LiveGateway) -> None:
    wait_until(lambda: chat(house, f"charge {CARD}").status_code == 200, 60)
    calls = [r for r in house.records() if r["kind"] == "call"]
    restricted = [r for r in calls if r["sensitivity"] == "restricted"]
    assert restricted
    assert all(r["zones"] in (["onprem"], []) for r in restricted)
    assert not [a for r in restricted for a in r["attempts"] if a["zone"] == "cloud"]
    assert CARD.encode() not in house.audited()
    assert CARD.encode() not in house.log_path.read_bytes()
