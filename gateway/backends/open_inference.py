"""The REST side of an Open Inference Protocol server, over the lean client: what the kinds
`triton` and `kserve` share. Nothing of a caller's head goes on, only what stands here.
"""

from __future__ import annotations

from urllib.parse import quote

import orjson

from gateway.backends.wire import Header, PostAgain, Wire, WireAnswer, WireRequest
from gateway.deadline import Deadline
from gateway.errors import (
    GatewayError,
    NotOffered,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamRefused,
)
from gateway.oip import rest
from gateway.oip.failures import of_model
from gateway.types import (
    InferenceRequest,
    OneFrame,
    ReplyStream,
    RestBody,
    ServedModel,
    TensorCall,
    WireProtocol,
)

_GRPC_STATUS = {
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    413: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
}
_NOT_THE_CALLERS_FAULT = (401, 403, 407, 408)  # our credential, our pace
_GRPC = WireProtocol.KSERVE_GRPC
_MAX_WORDS = 2000
_MOST_STARTS = 4096
_MARGIN = 64  # bytes of white space that may stand before a body of JSON


class RestServer:
    def __init__(
        self, wire: Wire, headers: tuple[Header, ...] = (), *, takes_timeout: bool = False
    ) -> None:
        """`headers` go with every request. `takes_timeout`: the server understands the request
        parameter `timeout` (microseconds) and is told what is left."""
        self._wire = wire
        self._headers = headers
        self._takes_timeout = takes_timeout
        self._starts: dict[tuple[str, str], bytes] = {}  # of heads, by model and version

    async def infer(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        """The answer as the server wrote it; for a gRPC caller with every output in raw bytes."""
        call = request.payload
        if not isinstance(call, TensorCall):
            raise NotOffered("this endpoint serves tensors alone")
        body, header_length = rest.encode_request(
            call,
            binary_outputs=request.protocol is _GRPC,
            timeout_us=self._timeout_us(call, request.deadline),
        )
        told: tuple[Header, ...] = (
            (b"inference-header-content-length", b"%d" % header_length),
            (b"traceparent", request.traceparent.encode()),
        )
        if request.tracestate:
            told += ((b"tracestate", request.tracestate.encode()),)
        model = served.model, served.version or call.version
        start = self._starts.get(model) or self._start(*model)
        sent = PostAgain(start, told, body, repeatable=call.sequence is None)
        found = _rest_body(await self._wire.fetch(sent, request.deadline))
        if not found.body.startswith(b"{") and found.body[:_MARGIN].lstrip()[:1] != b"{":
            raise UpstreamFailed("the endpoint answered with something that is no JSON object")
        return OneFrame(found)

    async def get(self, path: str, timeout_s: float) -> RestBody:
        request = WireRequest("GET", path, self._headers)
        return _rest_body(await self._wire.fetch(request, Deadline.after(timeout_s)))

    async def ready(self, timeout_s: float) -> bool:
        try:
            await self.get("/v2/health/ready", timeout_s)
        except GatewayError:
            return False
        return True

    def _start(self, model: str, version: str) -> bytes:
        headers = (*self._headers, (b"content-type", b"application/octet-stream"))
        start = self._wire.start("POST", f"{model_path(model, version)}/infer", headers)
        if len(self._starts) < _MOST_STARTS:  # a version may be the caller's
            self._starts[model, version] = start
        return start

    def _timeout_us(self, call: TensorCall, deadline: Deadline) -> int | None:
        if not self._takes_timeout and "timeout" not in call.parameters:
            return None
        return max(1, int(deadline.remaining_s() * 1_000_000))


def model_path(model: str, version: str = "") -> str:
    path = f"/v2/models/{quote(model, safe='')}"
    return f"{path}/versions/{quote(version, safe='')}" if version else path


def _rest_body(answer: WireAnswer) -> RestBody:
    if answer.status != 200:
        raise failure(answer)
    length = answer.headers.get(b"inference-header-content-length")
    if length is None:
        return RestBody(answer.body)
    if not length.isdigit() or not 0 < int(length) <= len(answer.body):
        raise UpstreamFailed("the endpoint's answer states a wrong length of its JSON part")
    return RestBody(answer.body, int(length))


def failure(answer: WireAnswer) -> GatewayError:
    """What an answer other than 200 means for the call (A5)."""
    status = answer.status
    if status == 429:
        after = answer.headers.get(b"retry-after", b"")
        return UpstreamBusy(
            "the endpoint is busy", retry_after_s=float(after) if after.isdigit() else None
        )
    if status in _NOT_THE_CALLERS_FAULT:
        return UpstreamFailed(f"the endpoint refused the gateway itself, with {status}")
    if 400 <= status < 500 or status == 501:
        return UpstreamRefused(
            _words(answer.body) or f"the endpoint refused the call with {status}",
            http_status=status,
            grpc_status=_GRPC_STATUS.get(status, "INVALID_ARGUMENT"),
            body=answer.body,
        )
    words = _words(answer.body)
    if status == 500 and words:
        return of_model(words, body=answer.body)
    return UpstreamFailed(words or f"the endpoint answered with {status}")


def _words(body: bytes) -> str:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    words = document.get("error") if isinstance(document, dict) else None
    return words[:_MAX_WORDS] if isinstance(words, str) else ""
