"""Answers and events that are too large to be parsed: what the gateway needs to know of them stands
at their edges.

A parser of JSON holds Python's lock until it is through, in whichever thread it runs, and makes
objects of many times the text's size: 30 MB of empty lists took it 3 s and a gigabyte. A large
answer goes to its caller as it came. That it is an object is told by its braces; its usage is
looked for at its end and at its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

from gateway.core.errors import UpstreamFailed
from gateway.core.operations.spec import OperationSpec, StreamForm

READ_BYTES = 256 * 1024
"""More of an answer, or of one event, is not parsed."""
_EDGE_BYTES = 64 * 1024
# A key with its quotation marks stands in no string: within one, a mark has a backslash before it.
_USAGE = re.compile(rb'(?<!\\)"usage"\s*:\s*(?=\{)')
_TYPE = re.compile(rb'\s*\{\s*"type"\s*:\s*"([a-z_.]{1,64})"')
_VALUE = re.compile(rb"\{(?:[^{}]|\{[^{}]*\})*\}")  # an object with objects of one level
_MOST_TRIED = 8
_RESPONSE = "response"


def answer_edges(data: bytes, operation: OperationSpec, kind: str = "") -> dict[str, Any]:
    """The `type` and the `usage` of a large object, where its edges have them. `kind`: the name of
    an event. Raises UpstreamFailed for what is no object."""
    head, tail = data[:_EDGE_BYTES].lstrip(), data[-_EDGE_BYTES:].rstrip()
    if not head.startswith(b"{") or not tail.endswith(b"}"):
        raise UpstreamFailed("the endpoint answered with something that is no JSON object")
    edges: dict[str, Any] = {}
    named = _TYPE.match(head)
    if kind or named is not None:
        edges["type"] = kind or named[1].decode()  # type: ignore[index]
    within = b'{"response":{' if operation.stream is StreamForm.RESPONSES and edges else b"{"
    for document in _read(_endings(tail, within), _beginnings(head)):
        edges.update({key: document[key] for key in ("usage", _RESPONSE) if key in document})
        break
    return edges


def _read(*candidates: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    for each in candidates:
        for text in each:
            try:
                yield orjson.loads(text)
            except orjson.JSONDecodeError:
                continue


def _endings(tail: bytes, within: bytes) -> Iterator[bytes]:
    """Objects that begin with their usage and end as the answer does: only of a usage that is the
    answer's own is the rest as deep as that."""
    starts = [match.start() for match in _USAGE.finditer(tail)]
    for at in starts[: -_MOST_TRIED - 1 : -1]:
        yield within + tail[at:]


def _beginnings(head: bytes) -> Iterator[bytes]:
    """Objects that begin as the answer does and end with their usage."""
    for count, match in enumerate(_USAGE.finditer(head)):
        value = _VALUE.match(head, match.end())
        if value is None or count == _MOST_TRIED:
            return
        yield head[: value.end()] + b"}"
