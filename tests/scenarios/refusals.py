"""How a refusal is read in each protocol's shape, and whether anything behind the gateway moved."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx
from tritonclient.grpc import service_pb2

from gateway.demo.cloud.process import SimulatedCloud
from tests.live import LiveGateway, LoopThread

_SERVICE = "/inference.GRPCInferenceService/"
_PROBES = {"GET /v1/models", "GET /v2/health/ready", "grpc ServerReady"}
_ERROR_KEYS = {"message", "type", "param", "code"}


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int | str  # of HTTP, or the name of a gRPC code
    message: str
    reason: str


def of_v2(answer: httpx.Response) -> Refusal:
    document = answer.json()
    assert list(document) == ["error"]
    return _refusal(answer, document["error"])


def of_openai(answer: httpx.Response) -> Refusal:
    document = answer.json()
    assert list(document) == ["error"]
    assert document["error"].keys() == _ERROR_KEYS
    assert document["error"]["type"] in ("invalid_request_error", "permission_error")
    return _refusal(answer, document["error"]["message"])


def _refusal(answer: httpx.Response, message: str) -> Refusal:
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    return Refusal(answer.status_code, message, answer.headers["x-spillway-reason"])


@dataclass(frozen=True, slots=True)
class Reached:
    """What every inference moves, wherever it goes."""

    attempts: tuple[str, ...]
    executed: tuple[tuple[str, int, int, int], ...]
    cloud: tuple[tuple[str, int], ...]

    @classmethod
    def now(cls, gateway: LiveGateway, cloud: SimulatedCloud, loop: LoopThread) -> Reached:
        stats = gateway.client.get("/v2/models/stats").json()["model_stats"]
        return cls(
            tuple(re.findall(r"^spillway_attempts_total.*", gateway.metrics(), re.MULTILINE)),
            tuple(
                (
                    model["name"],
                    model["execution_count"],
                    model["inference_stats"]["success"]["count"],
                    model["inference_stats"]["fail"]["count"],
                )
                for model in stats
            ),
            tuple(
                (route, count)
                for route, count in sorted(loop.run(cloud.traffic()).routes.items())
                if route not in _PROBES
            ),
        )


class Channel:
    """Sends bytes as messages of the service, whatever they are."""

    def __init__(self, target: str) -> None:
        self._channel = grpc.insecure_channel(target, [("grpc.max_send_message_length", -1)])

    def infer(
        self,
        message: bytes,
        metadata: Mapping[str, str] | None = None,
        compression: grpc.Compression = grpc.Compression.NoCompression,
    ) -> Refusal:
        return self.call("ModelInfer", message, metadata, compression)

    def call(
        self,
        method: str,
        message: bytes,
        metadata: Mapping[str, str] | None = None,
        compression: grpc.Compression = grpc.Compression.NoCompression,
    ) -> Refusal:
        stub: Callable[..., Any] = self._channel.unary_unary(_SERVICE + method, bytes, bytes)
        try:
            stub(
                message,
                timeout=30,
                metadata=tuple((metadata or {}).items()),
                compression=compression,
            )
        except grpc.RpcError as error:
            found: Any = error
            told = dict(found.trailing_metadata() or ())
            return Refusal(found.code().name, found.details(), told.get("x-spillway-reason", ""))
        raise AssertionError("it was not refused")

    def infer_streamed(self, *messages: bytes, metadata: Mapping[str, str] | None = None) -> Any:
        """The message of each answer's refusal; empty for an answer that is none."""
        stub: Callable[..., Any] = self._channel.stream_stream(
            _SERVICE + "ModelStreamInfer", bytes, service_pb2.ModelStreamInferResponse.FromString
        )
        answers = stub(iter(messages), timeout=30, metadata=tuple((metadata or {}).items()))
        return [answer.error_message for answer in answers]

    def close(self) -> None:
        self._channel.close()


class Memory:
    """How far the resident memory of a process rose above where it was."""

    def __init__(self, pid: int) -> None:
        self._process = Path(f"/proc/{pid}")
        (self._process / "clear_refs").write_text("5")  # resets the peak, as proc(5) has it
        self._before_mib = self._read("VmRSS")

    def peak_growth_mib(self) -> float:
        return self._read("VmHWM") - self._before_mib

    def _read(self, name: str) -> float:
        found = re.search(rf"{name}:\s+(\d+) kB", (self._process / "status").read_text())
        assert found
        return int(found[1]) / 1024
