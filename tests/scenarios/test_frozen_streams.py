"""A real Triton that freezes in the middle of a stream: its caller is told, in the stream, soon."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.live import MODELS, LiveGateway, serving, wait_until

pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")

MODEL = "repeat_int32"
FRAMES, EVERY_MS = 200, 100
BUDGET_MS = "3000000"
SOON_S = 20.0  # of a budget of fifty minutes, on a machine that does other things too


@pytest.fixture(scope="module")
def repeating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    scratch = tmp_path_factory.mktemp("frozen")
    shutil.copytree(MODELS / MODEL, scratch / "repository" / MODEL)
    document = {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        "health": {"embedded_silent_s": 600.0},  # it is stopped for as long as the test takes
        "endpoints": {
            "local": {
                "kind": "triton", "zone": "onprem", "embedded": True,
                "repository": str(scratch / "repository"),
            }
        },
        "models": {MODEL: {"tensors": "clear", "served_by": [{"endpoint": "local"}]}},
    }  # fmt: skip
    with serving(document, scratch) as gateway:
        yield gateway


def asked() -> Any:
    """Many answers, each a while after the one before."""
    message = service_pb2.ModelInferRequest(model_name=MODEL, id="mine")
    inputs = (
        ("IN", "INT32", np.arange(FRAMES, dtype=np.int32)),
        ("DELAY", "UINT32", np.full(FRAMES, EVERY_MS, dtype=np.uint32)),
        ("WAIT", "UINT32", np.zeros(1, dtype=np.uint32)),
    )
    for name, datatype, values in inputs:
        message.inputs.add(name=name, datatype=datatype, shape=values.shape)
        message.raw_input_contents.append(values.tobytes())
    return message


def test_a_stream_from_a_triton_that_freezes_ends_in_band_and_not_as_if_it_were_whole(
    repeating: LiveGateway,
) -> None:
    triton = repeating.triton_pid()
    metadata = (("x-latency-budget-ms", BUDGET_MS),)
    with grpc.insecure_channel(repeating.grpc_target) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        answers = stub.ModelStreamInfer(iter([asked()]), metadata=metadata)
        for _ in range(3):
            assert not next(answers).error_message
        os.kill(triton, signal.SIGSTOP)
        try:
            stopped_s = time.monotonic()
            rest = list(answers)
            took_s = time.monotonic() - stopped_s
        finally:
            os.kill(triton, signal.SIGCONT)
    *before, last = rest
    assert len(before) < FRAMES - 3
    assert not [answer for answer in before if answer.error_message]
    assert "went out" in last.error_message
    assert last.infer_response.id == "mine"
    assert took_s < SOON_S
    wait_until(lambda: repeating.records()[-1]["outcome"] != "sent", 10)
    end = repeating.records()[-1]
    assert (end["outcome"], end["end_reason"]) == ("failed", "down")


def test_a_stream_that_is_asked_for_afterwards_is_whole(repeating: LiveGateway) -> None:
    wait_until(lambda: repeating.client.get("/readyz").status_code == 200, 60.0)
    with grpc.insecure_channel(repeating.grpc_target) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        message = asked()
        message.raw_input_contents[1] = np.zeros(FRAMES, dtype=np.uint32).tobytes()
        answers = list(stub.ModelStreamInfer(iter([message]), timeout=60.0))
    assert not [answer.error_message for answer in answers if answer.error_message]
    found = [a.infer_response for a in answers if a.infer_response.outputs]
    assert len(found) == FRAMES
