"""Services of AWS on a loopback port: Bedrock's Converse, SageMaker's endpoints and STS.

Written from the service models that botocore publishes: requests are validated by the shapes of
`bedrock-runtime` and by what the documentation adds, and signatures are recomputed by botocore.
Nothing of it is the gateway's.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import datetime
import itertools
import json
import re
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.loaders import Loader
from botocore.model import ServiceModel, Shape
from botocore.validate import ParamValidator

Document = dict[str, Any]
REGION = "eu-central-1"
ACCESS_KEY, SECRET_KEY = "AKIDEXAMPLE0123456789", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
BEARER = "bedrock-api-key-0123456789"
_LATEST_S = 300
_ROUTE = re.compile(r"/model/([^/]+)/(converse|converse-stream)")
_ENDPOINT = re.compile(r"/endpoints/([^/]+)/(invocations|invocations-response-stream)")
_TYPES: dict[str, Any] = {
    "structure": dict, "list": list, "string": str, "blob": str, "boolean": bool,
    "integer": int, "long": int, "float": (int, float), "double": (int, float), "map": dict,
}  # fmt: skip


@cache
def service(name: str) -> ServiceModel:
    return ServiceModel(Loader().load_service_model(name, "service-2"), name)


def problem(document: Any, operation: str = "Converse") -> str:
    """Why Bedrock refuses the body of a request; empty: it takes it."""
    shape = service("bedrock-runtime").operation_model(operation).input_shape
    try:
        params = _params(shape, document, "")
        report = ParamValidator().validate({**params, "modelId": "m.m"}, shape)
        if report.has_errors():
            raise ValueError(report.generate_report())
        _check_rules(document)
    except ValueError as exc:
        return str(exc)
    return ""


def _params(shape: Shape, value: Any, at: str) -> Any:
    """As botocore takes parameters: blobs are bytes. Raises ValueError for what the shapes say and
    botocore leaves to the service."""
    if getattr(shape, "is_document_type", False):
        return value
    if shape.type_name == "boolean" and type(value) is not bool:
        raise ValueError(f"{at}: not a boolean")
    if not isinstance(value, _TYPES[shape.type_name]):
        raise ValueError(f"{at}: not a {shape.type_name}")
    limits = shape.metadata
    size = value if isinstance(value, int | float) else len(value)
    if size > limits.get("max", size) or size < limits.get("min", size):
        raise ValueError(f"{at}: out of bounds")
    if shape.type_name == "structure":
        if unknown := value.keys() - shape.members.keys():
            raise ValueError(f"{at}: extraneous key {sorted(unknown)}")
        return {k: _params(shape.members[k], v, f"{at}.{k}") for k, v in value.items()}
    if shape.type_name == "list":
        return [_params(shape.member, v, f"{at}[{n}]") for n, v in enumerate(value)]
    if shape.type_name == "map":
        return {
            _params(shape.key, k, f"{at} key"): _params(shape.value, v, f"{at}.{k}")
            for k, v in value.items()
        }
    if shape.type_name == "blob":
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error:
            raise ValueError(f"{at}: not base64") from None
    if shape.type_name == "string":
        if "enum" in limits and value not in limits["enum"]:
            raise ValueError(f"{at}: not one of {limits['enum']}")
        if "pattern" in limits and not re.fullmatch(limits["pattern"], value):
            raise ValueError(f"{at}: does not match {limits['pattern']}")
    return value


def _check_rules(document: Document) -> None:
    """What the documentation says beside the shapes."""
    turns = document.get("messages", [])
    roles = [turn["role"] for turn in turns]
    if not roles or roles[0] != "user" or roles[-1] != "user" or "system" in roles:
        raise ValueError("messages: a conversation must start and end with a user message")
    if any(a == b for a, b in itertools.pairwise(roles)):
        raise ValueError("messages: roles must alternate")
    names: list[str] = []
    open_calls: list[str] = []
    for turn in turns:
        blocks = turn["content"]
        kinds = [next(iter(block)) for block in blocks]
        if not any(kind != "cachePoint" for kind in kinds):
            raise ValueError("messages: content must not be empty")
        if ("toolUse" in kinds or "toolResult" in kinds) and "toolConfig" not in document:
            raise ValueError("toolConfig must be defined when using tool blocks")
        results = [b["toolResult"]["toolUseId"] for b in blocks if "toolResult" in b]
        if sorted(results) != sorted(open_calls):
            raise ValueError("messages: each toolUse needs its toolResult, next")
        open_calls = [b["toolUse"]["toolUseId"] for b in blocks if "toolUse" in b]
        if turn["role"] != "user" and {"image", "document", "toolResult"} & set(kinds):
            raise ValueError("messages: images, documents and results are the user's")
        if turn["role"] != "assistant" and {"toolUse", "reasoningContent"} & set(kinds):
            raise ValueError("messages: calls and thoughts are the assistant's")
        if "document" in kinds and "text" not in kinds:
            raise ValueError("messages: a document needs a text beside it")
        if kinds.count("image") > 20 or kinds.count("document") > 5:
            raise ValueError("messages: up to 20 images and 5 documents")
        for block in blocks:
            inner = block["toolResult"]["content"] if "toolResult" in block else [block]
            names += [each["document"]["name"] for each in inner if "document" in each]
    texts = [*_texts(document.get("system", [])), *_texts([b for t in turns for b in t["content"]])]
    if not all(text.strip() for text in texts):
        raise ValueError("text content blocks must contain non-whitespace text")
    if len(set(names)) < len(names) or not all(
        re.fullmatch(r"[A-Za-z0-9()\[\]\s-]+", name) and not re.search(r"\s\s", name)
        for name in names
    ):
        raise ValueError("document names are distinct, of letters, digits and single spaces")
    stops = document.get("inferenceConfig", {}).get("stopSequences", [])
    if not all(stop.strip() for stop in stops):
        raise ValueError("stopSequences must contain non-whitespace text")
    _check_output(document)


def _check_output(document: Document) -> None:
    config = document.get("toolConfig", {})
    specs = [tool["toolSpec"] for tool in config.get("tools", []) if "toolSpec" in tool]
    if len({spec["name"] for spec in specs}) < len(specs) or (
        "toolConfig" in document and not specs
    ):
        raise ValueError("toolConfig: tools have names of their own")
    for spec in specs:
        if spec["inputSchema"]["json"].get("type") != "object":
            raise ValueError("inputSchema: type must be object")
    shape = document.get("outputConfig", {}).get("textFormat")
    if shape is not None and not isinstance(
        json.loads(shape["structure"]["jsonSchema"]["schema"]), dict
    ):
        raise ValueError("jsonSchema: not a schema")


def _texts(blocks: list[Document]) -> list[str]:
    return [block["text"] for block in blocks if "text" in block]


def message(kind: str, payload: bytes, **headers: str) -> bytes:
    """One of an event stream: the kind of the message, and its headers."""
    stated = {f":{name.replace('_', '-')}": value for name, value in headers.items()}
    return framed(named({":message-type": kind, **stated}), payload)


def named(headers: dict[str, str]) -> bytes:
    return b"".join(
        bytes([len(name)])
        + name.encode()
        + b"\x07"
        + struct.pack(">H", len(value))
        + value.encode()
        for name, value in headers.items()
    )


def framed(raw: bytes, payload: bytes) -> bytes:
    """A message with these headers."""
    prelude = struct.pack(">II", 16 + len(raw) + len(payload), len(raw))
    whole = prelude + struct.pack(">I", binascii.crc32(prelude)) + raw + payload
    return whole + struct.pack(">I", binascii.crc32(whole))


def event(name: str, document: Document) -> bytes:
    return message(
        "event", json.dumps(document).encode(), event_type=name, content_type="application/json"
    )


def failing(name: str, words: str = "Not now.") -> bytes:
    body = json.dumps({"message": words}).encode()
    return message("exception", body, exception_type=name, content_type="application/json")


def part(payload: bytes) -> bytes:
    return message(
        "event", payload, event_type="PayloadPart", content_type="application/octet-stream"
    )


@dataclass
class Reply:
    """What Converse answers."""

    content: list[Document] = field(default_factory=list)
    stop_reason: str = "end_turn"
    usage: Document = field(
        default_factory=lambda: {"inputTokens": 7, "outputTokens": 5, "totalTokens": 12}
    )
    status: int = 200
    error: str = ""  # the name of an exception
    headers: Document = field(default_factory=dict)
    body: Document = field(default_factory=dict)  # of a failure, in addition
    piece: int = 3  # characters of a delta
    events: int | None = None  # of a stream, that come before it is cut off, or before `error`
    damaged: int | None = None  # the byte of the last of them that is another
    held: threading.Event | None = None  # the stream waits for it behind those


def text(said: str) -> Document:
    return {"text": said}


def tool_use(name: str, own: str = "tooluse_1", **given: Any) -> Document:
    return {"toolUse": {"toolUseId": own, "name": name, "input": given}}


def thought(said: str, signature: str = "c2ln") -> Document:
    return {"reasoningContent": {"reasoningText": {"text": said, "signature": signature}}}


def answer_of(reply: Reply) -> Document:
    return {
        "output": {"message": {"role": "assistant", "content": reply.content}},
        "stopReason": reply.stop_reason,
        "usage": reply.usage,
        "metrics": {"latencyMs": 5},
    }


def stream_events(reply: Reply) -> list[tuple[str, Document]]:
    """All events of a stream of the answer."""
    events: list[tuple[str, Document]] = [("messageStart", {"role": "assistant"})]
    for at, block in enumerate(reply.content):
        start, deltas = _pieces(block, reply.piece)
        if start is not None:
            events.append(("contentBlockStart", {"start": start, "contentBlockIndex": at}))
        events += [("contentBlockDelta", {"delta": d, "contentBlockIndex": at}) for d in deltas]
        events.append(("contentBlockStop", {"contentBlockIndex": at}))
    return [
        *events,
        ("messageStop", {"stopReason": reply.stop_reason}),
        ("metadata", {"usage": reply.usage, "metrics": {"latencyMs": 5}, "p": "abcdefgh"}),
    ]


def _pieces(block: Document, size: int) -> tuple[Document | None, list[Document]]:
    if "text" in block:
        return None, [{"text": each} for each in _split(block["text"], size)]
    if "reasoningContent" in block:
        inner = block["reasoningContent"]
        if "redactedContent" in inner:
            return None, [block]
        stated = inner["reasoningText"]
        deltas = [{"text": each} for each in _split(stated["text"], size)]
        if "signature" in stated:
            deltas.append({"signature": stated["signature"]})
        return None, [{"reasoningContent": each} for each in deltas]
    use = dict(block["toolUse"])
    given = use.pop("input")
    pieces = _split(json.dumps(given), size) if given else []
    return {"toolUse": use}, [{"toolUse": {"input": each}} for each in ["", *pieces]]


def _split(whole: str, size: int) -> list[str]:
    return [whole[at : at + size] for at in range(0, len(whole), size)]


@dataclass
class Call:
    """One that was let through."""

    path: str
    document: Document
    headers: dict[str, str]


@dataclass
class AwsApi:
    url: str = ""
    reply: Callable[[Document], Reply] = lambda document: Reply([text("Hello.")])
    container: Callable[[Document], Document | list[bytes]] = lambda document: {}
    calls: list[Call] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)  # by who got a stream
    secrets: dict[str, tuple[str, str]] = field(  # with the session token, by access key
        default_factory=lambda: {ACCESS_KEY: (SECRET_KEY, "")}
    )
    identity: str = "identity-token-1"  # that STS takes
    life_s: float = 3600.0  # of what it issues
    ahead_s: float = 0.0  # of the service's clock
    probe: tuple[int, str] = (404, "UnknownOperationException")  # the answer to a GET
    issued: list[Document] = field(default_factory=list)  # forms that STS has seen
    issues: bool = True

    @property
    def requests(self) -> list[Document]:
        return [call.document for call in self.calls]


def signature_problem(api: AwsApi, method: str, path: str, headers: Any, body: bytes) -> str:
    """The exception for a request that is not signed as it must be; empty: it is."""
    stated = headers.get("authorization", "")
    match = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, "
        r"SignedHeaders=([^,]+), Signature=([0-9a-f]{64})",
        stated,
    )
    if match is None:
        return "MissingAuthenticationTokenException"
    key, day, region, name, signed, signature = match.groups()
    if key not in api.secrets:
        return "UnrecognizedClientException"
    secret, token = api.secrets[key]
    if headers.get("x-amz-security-token", "") != token:
        return "ExpiredTokenException"
    expected = "sts" if path == "/" else "sagemaker" if "/endpoints/" in path else "bedrock"
    date = headers.get("x-amz-date", "")
    if region != REGION or name != expected or day != date[:8]:
        return "InvalidSignatureException"
    now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=api.ahead_s)
    then = datetime.datetime.strptime(f"{date}+0000", "%Y%m%dT%H%M%SZ%z")
    if abs((now - then).total_seconds()) > _LATEST_S:
        return "InvalidSignatureException"
    names = signed.split(";")
    required = {n.lower() for n in headers if n.lower().startswith("x-amz")} | {"host"}
    if names != sorted(names) or not required <= set(names):
        return "IncompleteSignatureException"
    request = AWSRequest(
        method, f"http://{headers['host']}{path}", {n: headers[n] for n in names}, body or None
    )
    request.context["timestamp"] = date
    auth = SigV4Auth(Credentials(key, secret, token or None), name, region)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    right = auth.signature(text, request) == signature
    return "" if right else "InvalidSignatureException"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: AwsApi

    def log_message(self, format: str, *args: Any) -> None: ...

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string(time.time() + self.api.ahead_s)

    def do_GET(self) -> None:
        if self._may_call(b""):
            self._fail(*self.api.probe, "")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/":
            self._issue(raw)
            return
        if not self._may_call(raw):
            return
        document = json.loads(raw)
        path = urlsplit(self.path).path
        route, endpoint = _ROUTE.fullmatch(path), _ENDPOINT.fullmatch(path)
        call = Call(unquote(path), document, {n.lower(): v for n, v in self.headers.items()})
        if route is not None:
            self._converse(call, "Stream" if route[2] == "converse-stream" else "")
        elif endpoint is not None:
            self.api.calls.append(call)
            self._invoke(document)
        else:
            self._fail(404, "UnknownOperationException", "")

    def _may_call(self, body: bytes) -> bool:
        headers = self.headers
        if headers.get("authorization") == f"Bearer {BEARER}":
            return True
        wrong = signature_problem(self.api, self.command, self.path, headers, body)
        if wrong:
            self.api.refused.append(wrong)
            self._fail(403, wrong, f"The token {headers.get('x-amz-security-token')} is wrong.")
        return not wrong

    def _converse(self, call: Call, kind: str) -> None:
        if wrong := problem(call.document, f"Converse{kind}"):
            self.api.refused.append(wrong)
            self._fail(400, "ValidationException", wrong)
            return
        self.api.calls.append(call)
        reply = self.api.reply(call.document)
        if reply.status != 200:
            self._fail(reply.status, reply.error, "Not now.", reply.headers, reply.body)
        elif kind:
            self._stream(reply)
        else:
            self._send(200, answer_of(reply))

    def _invoke(self, document: Document) -> None:
        answer = self.api.container(document)
        if isinstance(answer, dict):
            self._send(200, answer)
            return
        self._begin_stream()
        for each in answer:
            self.wfile.write(each)

    def _issue(self, raw: bytes) -> None:
        form = {key: values[0] for key, values in parse_qs(raw.decode()).items()}
        self.api.issued.append(form)
        wrong = "" if self.api.issues else "AccessDenied"
        if form["Action"] == "AssumeRoleWithWebIdentity":
            if form["WebIdentityToken"] != self.api.identity:
                wrong = "InvalidIdentityToken"
        else:
            wrong = wrong or signature_problem(self.api, "POST", "/", self.headers, raw)
        if wrong:
            self._send_xml(
                403, f"<ErrorResponse><Error><Code>{wrong}</Code></Error></ErrorResponse>"
            )
            return
        key, secret, token = (f"{name}{len(self.api.issued):016}" for name in ("ASIA", "s", "t"))
        self.api.secrets[key] = (secret, token)
        ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=self.api.life_s)
        self._send_xml(
            200,
            f'<{form["Action"]}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Result>'
            f"<Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}"
            f"</SecretAccessKey><SessionToken>{token}</SessionToken><Expiration>"
            f"{ends:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials></Result>"
            f"</{form['Action']}Response>",
        )

    def _fail(
        self,
        status: int,
        kind: str,
        words: str,
        headers: Document | None = None,
        more: Document | None = None,
    ) -> None:
        named = {"x-amzn-errortype": f"{kind}:http://internal.amazon.com/x/"} if kind else {}
        self._send(status, {"message": words, **(more or {})}, {**named, **(headers or {})})

    def _send(self, status: int, document: Document, headers: Document | None = None) -> None:
        self._send_body(
            status,
            json.dumps(document).encode(),
            {"content-type": "application/json", **(headers or {})},
        )

    def _send_xml(self, status: int, body: str) -> None:
        self._send_body(status, body.encode(), {"content-type": "text/xml"})

    def _send_body(self, status: int, body: bytes, headers: Document) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _begin_stream(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "application/vnd.amazon.eventstream")
        self.send_header("connection", "close")
        self.end_headers()

    def _stream(self, reply: Reply) -> None:
        self._begin_stream()
        events = [event(*each) for each in stream_events(reply)][: reply.events]
        if reply.damaged is not None:
            last = bytearray(events[-1])
            last[reply.damaged] ^= 0x40
            events[-1] = bytes(last)
        try:
            for each in events:
                self.wfile.write(each)
            if reply.held is not None:
                while not reply.held.wait(0.02):
                    self.wfile.write(event("later", {}))
            if reply.error:
                self.wfile.write(failing(reply.error))
        except OSError:
            self.api.left.set()


@contextlib.contextmanager
def aws_api() -> Iterator[AwsApi]:
    class Serving(_Handler):
        """One API's own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Serving)
    server.daemon_threads = True
    Serving.api = AwsApi(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield Serving.api
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
