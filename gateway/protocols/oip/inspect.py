"""The read-only questions of the protocol: a gRPC question as a REST path, and the REST answer as
a gRPC message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import orjson
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2 as pb

from gateway.core.errors import MalformedBody, NotOffered, UpstreamFailed
from gateway.core.reply import RestBody

OFFERED_EXTENSIONS = frozenset(
    {"classification", "sequence", "model_repository", "schedule_policy", "model_configuration"}
    | {"binary_tensor_data", "parameters", "statistics"}
)
"""Triton's extensions that the gateway passes on; the others control or watch the server. Of the
model repository it offers the index."""


@dataclass(frozen=True, slots=True)
class _Question:
    request: Any
    response: Any
    path: str  # after /v2, or after /v2/models/NAME when the question is about a model
    wrapped: str = ""  # the field of the answer that holds what REST gives bare
    names_model: bool = True


_QUESTIONS = {
    "ServerLive": _Question(
        pb.ServerLiveRequest, pb.ServerLiveResponse, "/health/live", names_model=False
    ),
    "ServerReady": _Question(
        pb.ServerReadyRequest, pb.ServerReadyResponse, "/health/ready", names_model=False
    ),
    "ServerMetadata": _Question(
        pb.ServerMetadataRequest, pb.ServerMetadataResponse, "", names_model=False
    ),
    "ModelReady": _Question(pb.ModelReadyRequest, pb.ModelReadyResponse, "/ready"),
    "ModelMetadata": _Question(pb.ModelMetadataRequest, pb.ModelMetadataResponse, ""),
    "ModelConfig": _Question(pb.ModelConfigRequest, pb.ModelConfigResponse, "/config", "config"),
    "ModelStatistics": _Question(pb.ModelStatisticsRequest, pb.ModelStatisticsResponse, "/stats"),
}
_YES: dict[str, Callable[[Any], None]] = {
    "ServerLive": lambda answer: setattr(answer, "live", True),
    "ServerReady": lambda answer: setattr(answer, "ready", True),
    "ModelReady": lambda answer: setattr(answer, "ready", True),
}


def path(method: str, message: bytes) -> str:
    """The REST path that asks the same."""
    question = _question(method)
    request = question.request()
    try:
        request.ParseFromString(message)
    except DecodeError:
        raise MalformedBody("the message is not of the method's type") from None
    if not question.names_model:
        return f"/v2{question.path}"
    path = f"/v2/models/{quote(request.name, safe='')}" if request.name else "/v2/models"
    if request.version:
        path += f"/versions/{quote(request.version, safe='')}"
    return path + question.path


def message(method: str, body: RestBody) -> bytes:
    """The gRPC answer. A health answer is a yes, as its status was 200."""
    question = _question(method)
    answer = question.response()
    if method in _YES:
        _YES[method](answer)
    else:
        _parse(body.body, getattr(answer, question.wrapped) if question.wrapped else answer)
    serialised: bytes = answer.SerializeToString()
    return serialised


def _parse(body: bytes, answer: Any) -> None:
    try:
        document = orjson.loads(body)
        if not isinstance(document, dict):
            raise UpstreamFailed("the endpoint's answer is not of the protocol")
        json_format.ParseDict(document, answer, ignore_unknown_fields=True)
    except (json_format.ParseError, orjson.JSONDecodeError):
        raise UpstreamFailed("the endpoint's answer is not of the protocol") from None


def _question(method: str) -> _Question:
    question = _QUESTIONS.get(method)
    if question is None:
        raise NotOffered("this method is not offered")
    return question


def question(rest_path: str) -> tuple[str, bytes]:
    """The gRPC method and message that ask the same as a REST path of ours."""
    parts = rest_path.strip("/").split("/")[1:]
    name = version = ""
    if parts[:1] == ["models"] and len(parts) > 1 and parts != ["models", "stats"]:
        name, parts = unquote(parts[1]), parts[2:]
        if parts[:1] == ["versions"]:
            version, parts = unquote(parts[1]), parts[2:]
        tail = "".join(f"/{part}" for part in parts)
        method = next(m for m, q in _QUESTIONS.items() if q.names_model and q.path == tail)
    elif parts == ["models", "stats"]:
        method = "ModelStatistics"
    else:
        tail = "".join(f"/{part}" for part in parts)
        method = next(m for m, q in _QUESTIONS.items() if not q.names_model and q.path == tail)
    request = _QUESTIONS[method].request()
    if name:
        request.name, request.version = name, version
    serialised: bytes = request.SerializeToString()
    return method, serialised


def answer(method: str, message: bytes) -> RestBody:
    """The REST answer; a health answer that says no raises UpstreamFailed, as REST's status."""
    question = _question(method)
    try:
        reply = question.response.FromString(message)
    except DecodeError:
        raise UpstreamFailed("the endpoint's answer is not of the protocol") from None
    if method in _YES:
        if not next(value for _, value in reply.ListFields() or [(None, False)]):
            raise UpstreamFailed("the endpoint is not ready")
        return RestBody(b"")
    reply = getattr(reply, question.wrapped) if question.wrapped else reply
    return RestBody(orjson.dumps(_document(reply)))


def _document(message: Any) -> dict[str, Any]:
    """As Triton writes it over REST: every field but messages that are absent, and every whole
    number as a number, where the JSON of protobuf leaves out zeros and quotes 64 bits."""
    return {
        field.name: _value(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def _value(field: Any, value: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        kind = field.message_type.fields_by_name["value"]
        return {str(key): _single(kind, each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_single(field, each) for each in value]
    return _single(field, value)


def _single(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _document(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value
