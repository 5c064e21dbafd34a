"""The REST side of an Open Inference Protocol server, over the lean client: what the kinds
`triton` and `kserve` share. Nothing of a caller's head goes on, only what stands here.
"""

from __future__ import annotations

from urllib.parse import quote

import orjson

from gateway.core.deadline import Deadline
from gateway.core.errors import (
    GatewayError,
    NotOffered,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamRefused,
)
from gateway.core.reply import OneFrame, ReplyStream, RestBody
from gateway.core.types import InferenceRequest, ServedModel, TensorCall, WireProtocol
from gateway.endpoints.connectors.call_ids import CallId, CallIds, other_id
from gateway.endpoints.connectors.credential_mask import CredentialMask
from gateway.protocols.http_client.connection import HttpClientConnection
from gateway.protocols.http_client.wire import (
    ConnectionPool,
    Header,
    PostAgain,
    WireAnswer,
    WireRequest,
)
from gateway.protocols.oip import rest
from gateway.protocols.oip.failures import model_failure

_GRPC_STATUS = {
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    413: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
}
_NOT_THE_CALLERS_FAULT = (401, 407, 408)  # our credential, our pace
_AGAIN = (502, 503, 504)  # it, or what stands behind it, is not there for the moment
_GRPC = WireProtocol.KSERVE_GRPC
_LENGTH = b"inference-header-content-length"
_MAX_WORDS = 2000
_MOST_STARTS = 4096
_MARGIN = 64  # bytes of white space that may stand before a body of JSON


class RestServer:
    def __init__(
        self, wire: ConnectionPool, headers: tuple[Header, ...] = (), *, takes_timeout: bool = False
    ) -> None:
        """`headers` go with every request. `takes_timeout`: the server understands the request
        parameter `timeout` (microseconds) and is told what is left."""
        self._wire = wire
        self._headers = headers
        self._takes_timeout = takes_timeout
        self._mask = CredentialMask(value.decode("latin-1") for _, value in headers)
        self._starts: dict[tuple[str, str], bytes] = {}  # of heads, by model and version
        self._ids = CallIds()
        self._repeats_ids = True  # until an answer has none

    async def infer(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        """The answer as the server wrote it; for a gRPC caller with every output in raw bytes."""
        call = request.payload
        if not isinstance(call, TensorCall):
            raise NotOffered("this endpoint serves tensors alone")
        own = self._ids.new(call.id)
        body, header_length = rest.encode_request(
            call,
            id=own.sent,
            binary_outputs=request.protocol is _GRPC,
            timeout_us=self._timeout_us(call, request.deadline),
        )
        headers: tuple[Header, ...] = (
            (_LENGTH, b"%d" % header_length),
            (b"traceparent", request.traceparent.encode()),
        )
        if request.tracestate:
            headers += ((b"tracestate", request.tracestate.encode()),)
        model = served.model, served.version or call.version
        start = self._starts.get(model) or self._start(*model)
        sent = PostAgain(start, headers, body, repeatable=call.sequence is None)
        answer = self._rest_body(await self._answer(sent, own, request))
        if not answer.body.startswith(b"{") and answer.body[:_MARGIN].lstrip()[:1] != b"{":
            raise UpstreamFailed("the endpoint answered with something that is no JSON object")
        return OneFrame(answer)

    async def _answer(self, sent: PostAgain, own: CallId, request: InferenceRequest) -> WireAnswer:
        """The answer to this call and to no other. Errors have no id: what one says that came on a
        connection with earlier calls is asked for again on a new one, or left out. What must not
        go out twice has a connection of its own from the start."""
        identified = _Identified(own)
        alone = not (sent.repeatable and self._repeats_ids)
        deadline, held = request.deadline, request.held
        answer = await self._wire.read(sent, deadline, identified, alone=alone, held=held)
        if identified.nameless:
            self._repeats_ids = False
        if not identified.unsure:
            return answer
        if answer.status == 200 or _reaches_the_caller(answer.status):
            return await self._wire.read(sent, deadline, identified, alone=True, held=held)
        return WireAnswer(answer.status, answer.headers, b"")

    async def get(self, path: str, timeout_s: float, *, alone: bool = True) -> RestBody:
        """Its answer has no id: `alone` on its connection it is not another call's."""
        request = WireRequest("GET", path, self._headers)
        deadline = Deadline.after(timeout_s)
        return self._rest_body(
            await self._wire.read(request, deadline, WireAnswer.from_connection, alone=alone)
        )

    async def ready(self, timeout_s: float) -> bool:
        try:
            await self.get("/v2/health/ready", timeout_s, alone=False)
        except GatewayError:
            return False
        return True

    def _rest_body(self, answer: WireAnswer) -> RestBody:
        if answer.status != 200:
            body = self._mask.masked(answer.body)  # guard: T5.rest-words -> body = answer.body
            raise failure(WireAnswer(answer.status, answer.headers, body))
        length = answer.headers.get(_LENGTH)
        if length is None:
            return RestBody(answer.body)
        if not length.isdigit() or not 0 < int(length) <= len(answer.body):
            raise UpstreamFailed("the endpoint's answer states a wrong length of its JSON part")
        return RestBody(answer.body, int(length))

    def _start(self, model: str, version: str) -> bytes:
        headers = (*self._headers, (b"content-type", b"application/octet-stream"))
        start = self._wire.start("POST", f"{model_path(model, version)}/infer", headers)
        if len(self._starts) < _MOST_STARTS:  # a version may be the caller's
            self._starts[model, version] = start
        return start

    def _timeout_us(self, call: TensorCall, deadline: Deadline) -> int | None:
        if not self._takes_timeout and "timeout" not in call.parameters:
            return None
        # guard: D3.rest-timeout -> return None
        return max(1, int(deadline.remaining_s() * 1_000_000))


class _Identified:
    """Reads the answers to one call."""

    def __init__(self, own: CallId) -> None:
        self._own = own
        self.unsure = False  # whether the last one may belong to another call
        self.nameless = False  # whether one had no id at all

    def __call__(self, connection: HttpClientConnection) -> WireAnswer:
        status, headers, body = connection.status, connection.headers, connection.body
        if status != 200:
            named = self._own.named_in(body)
            self.unsure = connection.reused and not named
            return WireAnswer(status, headers, self._own.restored_words(body) if named else body)
        length = headers.get(_LENGTH, b"")
        size = int(length) if length.isdigit() else len(body)
        text = body[:size] if size < len(body) else body
        restored = self._own.restored(text)
        if restored is None:
            self._without_id(connection, text)
        elif restored is not text:
            rest = memoryview(body)[len(text) :]
            body = b"".join((restored, rest)) if rest else restored
            if length.isdigit() and size <= len(connection.body):
                headers = {**headers, _LENGTH: b"%d" % len(restored)}
        return WireAnswer(status, headers, body)

    def _without_id(self, connection: HttpClientConnection, text: bytes) -> None:
        """Some servers do not repeat the id. What such a one says is an answer to the first call
        on its connection and to no later one: on another one the call is asked for again, on a
        connection of its own, as all later ones of this server are."""
        other = other_id(text)
        if other and (connection.reused or self._own.given):
            connection.retire()
            connection.on_surplus()
            raise UpstreamFailed("the endpoint's answer has the id of another call")
        self.nameless, self.unsure = not other, connection.reused
        connection.retire()


def _reaches_the_caller(status: int) -> bool:
    """Whether what the endpoint says to it does."""
    return status in (500, 501) or (
        400 <= status < 500 and status != 429 and status not in _NOT_THE_CALLERS_FAULT
    )


def model_path(model: str, version: str = "") -> str:
    path = f"/v2/models/{quote(model, safe='')}"
    return f"{path}/versions/{quote(version, safe='')}" if version else path


def failure(answer: WireAnswer) -> GatewayError:
    """What an answer other than 200 means for the call (A5)."""
    status = answer.status
    if status == 429:
        after = answer.headers.get(b"retry-after", b"")
        return UpstreamBusy(
            "the endpoint is busy", retry_after_s=float(after) if after.isdigit() else None
        )
    if status in _NOT_THE_CALLERS_FAULT or (status == 403 and not answer.body):
        return UpstreamFailed(
            f"the endpoint refused the gateway itself, with {status}",
            unserved=True,
            any_call=status == 401,
        )
    if 400 <= status < 500 or status == 501:
        return UpstreamRefused(
            _words(answer.body) or f"the endpoint refused the call with {status}",
            http_status=status,
            grpc_status=_GRPC_STATUS.get(status, "INVALID_ARGUMENT"),
            body=answer.body,
        )
    words = _words(answer.body)
    if status == 500 and words:
        return model_failure(words, body=answer.body)
    return UpstreamFailed(
        words or f"the endpoint answered with {status}",
        transient=status in _AGAIN,
        unserved=status in (500, 503),
    )


def _words(body: bytes) -> str:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    words = document.get("error") if isinstance(document, dict) else None
    return words[:_MAX_WORDS] if isinstance(words, str) else ""
