"""The REST form of an answer, read from any server of the protocol and written as Triton does."""

from __future__ import annotations

import json
from typing import Any

import orjson

from gateway.core.errors import GatewayError, NotOffered, UpstreamFailed
from gateway.core.reply import RestBody
from gateway.core.types import AT_ONCE_BYTES, Tensor, TensorCall
from gateway.protocols import strictjson
from gateway.protocols.oip import elements
from gateway.protocols.oip.datatypes import DATATYPES, element_count
from gateway.protocols.oip.reply import TensorReply
from gateway.protocols.oip.rest import BINARY_SIZE, divide, parameters, read_tensors, wants_binary

_WARY_BYTES = 1024 * 1024


def decode_response(body: RestBody) -> TensorReply:
    """Raises UpstreamFailed for what is not an answer of the protocol."""
    try:
        length = body.header_length
        text, tail = (body.body, b"") if length is None else divide(body.body, length)
        document = _read(text)
        if not isinstance(document, dict) or not isinstance(document.get("outputs"), list):
            raise UpstreamFailed("the endpoint's answer has no outputs")
        return TensorReply(
            model=str(document.get("model_name") or ""),
            version=str(document.get("model_version") or ""),
            outputs=read_tensors(document["outputs"], tail, "outputs", from_caller=False),
            id=str(document.get("id") or ""),
            parameters=parameters(document.get("parameters"), "parameters"),
        )
    except (GatewayError, ValueError, RecursionError) as exc:
        if isinstance(exc, UpstreamFailed):
            raise
        raise UpstreamFailed("the endpoint's answer is not of the protocol") from None


def _read(text: bytes) -> Any:
    """Servers write NaN, which is none of ours to refuse. Raises UpstreamFailed, ValueError."""
    if len(text) <= AT_ONCE_BYTES:
        return json.loads(text)
    if not strictjson.is_within(text, strictjson.BOUNDS):  # guard: A9.rest-json-bound
        raise UpstreamFailed(
            "the endpoint's answer has more JSON than can be read; ask for binary data",
            reason="answer_too_large",
        )
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        if len(text) > _WARY_BYTES:  # a parser that takes its time
            raise
    return json.loads(text)


def encode_response(reply: TensorReply, call: TensorCall) -> RestBody:
    """The answer in the bytes that Triton would have written for this call."""
    heads: list[bytes] = []
    tail: list[bytes] = []
    for tensor in reply.outputs:
        binary = wants_binary(call, tensor.name)
        heads.append(_output(tensor, binary))
        if binary:
            tail.append(tensor.data)
    head = _head(reply)
    text = b'%b"outputs":[%b]}' % (head, b",".join(heads))
    if not tail:
        return RestBody(text)
    return RestBody(b"".join((text, *tail)), len(text))


def _head(reply: TensorReply) -> bytes:
    document: dict[str, Any] = {"id": reply.id} if reply.id else {}
    document["model_name"], document["model_version"] = reply.model, reply.version
    if reply.parameters:
        document["parameters"] = dict(reply.parameters)
    return strictjson.dumps(document)[:-1] + b","


def _output(tensor: Tensor, binary: bool) -> bytes:
    document: dict[str, Any] = {
        "name": tensor.name,
        "datatype": tensor.datatype,
        "shape": list(tensor.shape),
    }
    parameters: dict[str, Any] = dict(tensor.parameters)
    if binary:
        parameters[BINARY_SIZE] = len(tensor.data)
    if parameters:
        document["parameters"] = parameters
    text = strictjson.dumps(document)
    return text if binary else b'%b,"data":%b}' % (text[:-1], _data(tensor))


def _data(tensor: Tensor) -> bytes:
    datatype = DATATYPES[tensor.datatype]
    if datatype.name in elements.BINARY_ONLY:
        raise NotOffered(
            f"sending {datatype.name} data via JSON is not supported. "
            "Please use the binary data format for output"
        )
    return elements.write(tensor.data, datatype, element_count(tensor.shape))
