"""What answers are made of as chat completions and their chunks, whatever API they come of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from orjson import JSONDecodeError, loads

from gateway.core import ambient
from gateway.core.errors import MalformedBody, UpstreamFailed
from gateway.core.reply import ServerEvent
from gateway.core.types import JsonDocument
from gateway.endpoints.connectors.openai.large import READ_BYTES
from gateway.protocols import strictjson


def head(kind: str, own: Any, model: Any) -> JsonDocument:
    """What every completion and every chunk begins with, `own` being its id where it has one."""
    return {
        "id": own if isinstance(own, str) else f"chatcmpl-{ambient.new_id()}",
        "object": kind,
        "created": int(ambient.wall_s()),
        "model": model,
    }


NOT_ENDED: Final = b'"finish_reason":null'


def chunk(begun: bytes, delta: bytes, end: bytes = NOT_ENDED) -> bytes:
    """Of choice 0, behind the head without its last brace; all in JSON. `end`: what its choice says
    of the answer's end, without braces."""
    return b'%b,"choices":[{"index":0,"delta":%b,"logprobs":null,%b}]}' % (begun, delta, end)


def usage_chunk(begun: bytes, usage: bytes) -> bytes:
    return b'%b,"choices":[],"usage":%b}' % (begun, usage)


def event_document(event: ServerEvent) -> JsonDocument:
    """The JSON of an event of another API. Raises UpstreamFailed for what is none."""
    data = event.data
    if len(data) > READ_BYTES and not strictjson.is_within(data, strictjson.BOUNDS):
        raise UpstreamFailed("the endpoint sent an event that is too large to be translated")
    try:
        document = loads(data)
    except JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise UpstreamFailed("the endpoint sent an event that is no JSON object")
    return document


def exact_document(event: ServerEvent) -> JsonDocument:
    """The same, with each number as it is written. It takes longer."""
    try:
        return strictjson.load_object(event.data)
    except MalformedBody:
        raise UpstreamFailed("the endpoint sent an event that cannot be read") from None


def no_beginning() -> UpstreamFailed:
    return UpstreamFailed("the endpoint began a stream with no message")


def unknown_block() -> UpstreamFailed:
    return UpstreamFailed("the endpoint's answer has a block that a chat has no words for")


def broken_off() -> UpstreamFailed:
    return UpstreamFailed("the endpoint's model broke off its answer", transient=True)


def count(usage: Mapping[str, Any], name: str) -> int:
    """Tokens, as an API counts them; 0 for what is no count."""
    tokens = usage.get(name)
    return int(tokens) if isinstance(tokens, int | float) and tokens > 0 else 0
