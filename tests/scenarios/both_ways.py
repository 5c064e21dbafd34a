"""One real Triton, called directly and through the gateway in front of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import httpx
from tritonclient.grpc import service_pb2

from tests.live import MODELS, LiveGateway, serving, settings

TEST_MODELS = Path(__file__).parent / "repository"
EXAMPLES = (
    "all_types",
    "repeat_int32",
    "simple",
    "simple_dyna_sequence",
    "simple_identity",
    "simple_int8",
    "simple_sequence",
    "simple_string",
    "simple_string_dyna_sequence",
)
PATIENCE_S = 20.0
SERVICE = "/inference.GRPCInferenceService/"
_CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)

Parameters = Mapping[str, bool | int | float | str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a REST caller gets, without what no two calls have in common."""

    status: int
    body: bytes
    header_length: str | None
    content_type: str | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a gRPC call failed."""

    code: str
    details: str


class Way:
    """One way to the server: HTTP and gRPC, bytes in and bytes out."""

    def __init__(self, http_url: str, grpc_target: str) -> None:
        self.http_url = http_url
        self.grpc_target = grpc_target
        self._http = httpx.Client(base_url=http_url, trust_env=False, timeout=PATIENCE_S)
        self._channel: Any = grpc.insecure_channel(grpc_target, options=_CHANNEL_OPTIONS)

    def close(self) -> None:
        self._http.close()
        self._channel.close()

    def rest(
        self,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        method: str = "",
    ) -> Answer:
        answer = self._http.request(
            method or ("GET" if body is None else "POST"),
            path,
            content=body,
            headers={"accept-encoding": "identity", **(headers or {})},
        )
        return Answer(
            answer.status_code,
            answer.content,
            answer.headers.get("inference-header-content-length"),
            answer.headers.get("content-type"),
        )

    def infer(
        self, model: str, body: bytes, header_length: int | None = None, version: str = ""
    ) -> Answer:
        at = f"/versions/{version}" if version else ""
        told = (
            {"content-type": "application/json"}
            if header_length is None
            else {
                "content-type": "application/octet-stream",
                "inference-header-content-length": str(header_length),
            }
        )
        return self.rest(f"/v2/models/{model}{at}/infer", body, told)

    def unary(self, message: Any, method: str = "ModelInfer") -> bytes | Refusal:
        """The serialised answer."""
        try:
            answer: bytes = self._channel.unary_unary(SERVICE + method)(
                message.SerializeToString(), timeout=PATIENCE_S
            )
        except grpc.RpcError as error:
            failed: Any = error
            return Refusal(failed.code().name, failed.details())
        return answer

    def stream(self, *messages: Any) -> list[bytes]:
        """The serialised messages of one ModelStreamInfer."""
        call = self._channel.stream_stream(SERVICE + "ModelStreamInfer")
        written = [message.SerializeToString() for message in messages]
        return list(call(iter(written), timeout=PATIENCE_S))


@dataclass(frozen=True, slots=True)
class BothWays:
    direct: Way
    through: Way
    gateway: LiveGateway = field(repr=False)


@contextmanager
def both_ways(scratch: Path, **changes: Any) -> Iterator[BothWays]:
    """A gateway over the models of Triton's examples and the test models."""
    repository = scratch / "repository"
    repository.mkdir()
    for model in (*(MODELS / name for name in EXAMPLES), *TEST_MODELS.iterdir()):
        (repository / model.name).symlink_to(model)
    document = settings(None, scratch, **changes)
    document["endpoints"]["local"]["repository"] = str(repository)
    document["models"] = changes.get("models", {})
    with serving(document, scratch) as gateway:
        ports = triton_ports(gateway)
        direct = Way(f"http://127.0.0.1:{ports['http']}", f"127.0.0.1:{ports['grpc']}")
        through = Way(gateway.http_url, gateway.grpc_target)
        try:
            yield BothWays(direct, through, gateway)
        finally:
            direct.close()
            through.close()


def triton_ports(gateway: LiveGateway) -> dict[str, int]:
    """Where the embedded server listens, as its own command line says."""
    line = Path(f"/proc/{gateway.triton_pid()}/cmdline").read_bytes().decode().split("\0")
    told = dict(word.removeprefix("--").split("=", 1) for word in line if "=" in word)
    return {name: int(told[f"{name}-port"]) for name in ("http", "grpc")}


def infer_message(
    model: str,
    inputs: Mapping[str, tuple[str, list[int], bytes]],
    *,
    call: str = "",
    version: str = "",
    outputs: tuple[str, ...] = (),
    parameters: Parameters | None = None,
) -> Any:
    message = service_pb2.ModelInferRequest(model_name=model, id=call, model_version=version)
    for name, (datatype, shape, data) in inputs.items():
        message.inputs.add(name=name, datatype=datatype, shape=shape)
        message.raw_input_contents.append(data)
    for name in outputs:
        message.outputs.add(name=name)
    set_parameters(message.parameters, parameters or {})
    return message


def set_parameters(target: Any, given: Parameters) -> None:
    kinds = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}
    for name, value in given.items():
        setattr(target[name], kinds[type(value)], value)
