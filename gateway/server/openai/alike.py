"""Bodies that differ from one before in what the last message says, and in nothing else.

An application that asks one thing at a time sends the same model, settings and instructions again
and again. Of such a body all but one string is known: what stands before it and behind it was read
strictly once, and a JSON string in the middle changes nothing of that. So that string alone is
read. Whatever is not of this form is read in full, and comes to the same:
tests/properties/test_alike_bodies.py.

Nothing is kept of what was said: only bodies with instructions and one message are learnt, and of
these all but that message.
"""

from __future__ import annotations

import json

import orjson

from gateway.core.errors import MalformedBody
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson
from gateway.protocols.strictjson import BOUNDS, JsonBounds

_MOST_BYTES = 16 * 1024  # of what is kept for a connection
_RESTS = 32  # calls, after one that was learnt, before another is: most would be in vain
_OPENING = ("system", "developer")
_WHO_SAYS_WHAT = frozenset({"role", "content"})
_SETTING = frozenset({bool, int, float, type(None)})
_MARK = "@"


class AlikeBodies:
    """Of one connection."""

    __slots__ = (
        "_before", "_behind", "_bounds", "_document", "_last", "_most", "_opening", "_rests",
    )  # fmt: skip

    def __init__(self, max_depth: int, bounds: JsonBounds = BOUNDS) -> None:
        self._most = max_depth
        self._bounds = bounds
        self._before = self._behind = b""  # of the string
        self._document: JsonDocument = {}
        self._opening: list[JsonDocument] = []
        self._last: JsonDocument = {}
        self._rests = 0

    def read(self, body: bytes) -> JsonDocument:
        """What `strictjson.load_object` makes of it. Raises MalformedBody."""
        before, behind = self._before, self._behind
        end = len(body) - len(behind)
        if before and body.startswith(before) and body.endswith(behind) and end > len(before):
            try:  # with its quotation marks: one string and nothing else
                text = orjson.loads(body[len(before) : end])
            except orjson.JSONDecodeError:
                text = None
            if type(text) is str:  # guard: C13.string-type -> if text is not None:
                last = {**self._last, "content": text}
                return {**self._document, "messages": [*self._opening, last]}
        document = strictjson.load_object(body, self._most, self._bounds)
        if self._rests:
            self._rests -= 1
        else:
            self._learn(body, document)
        return document

    def _learn(self, body: bytes, document: JsonDocument) -> None:
        self._rests = _RESTS
        text = _message_text(document)
        if text is None or text == _MARK or len(body) - len(text) > _MOST_BYTES:
            return
        *opening, last = document["messages"]
        marked = {**document, "messages": [*opening, {**last, "content": _MARK}]}
        for written in (orjson.dumps(text), json.dumps(text).encode()):
            before, middle, behind = body.partition(written)
            if middle and self._proves(b'%b"%b"%b' % (before, _MARK.encode(), behind), marked):
                self._before, self._behind = before, behind
                self._document = {**document, "messages": []}
                self._opening, self._last = opening, {**last, "content": ""}
                return

    def _proves(self, body: bytes, marked: JsonDocument) -> bool:
        """Whether it is that string, and no other one, that was exchanged for the mark."""
        try:
            # guard: C13.variant-proof -> return True
            return bool(strictjson.load_object(body, self._most) == marked)
        except MalformedBody:
            return False


def _message_text(document: JsonDocument) -> str | None:
    """What the one message says, of a chat that has nothing else of anybody in it."""
    messages = document.get("messages")
    if type(messages) is not list or not messages:
        return None
    for message in messages:
        if type(message) is not dict or message.keys() != _WHO_SAYS_WHAT:
            return None
    roles = [message["role"] for message in messages]
    # guard: C13.earlier-roles minus 2
    if type(roles.pop()) is not str or any(role not in _OPENING for role in roles):
        return None
    settings = (value for name, value in document.items() if name not in ("model", "messages"))
    if not _SETTING.issuperset(map(type, settings)):  # guard: C13.extra-text
        return None
    content = messages[-1]["content"]
    return content if type(content) is str else None
