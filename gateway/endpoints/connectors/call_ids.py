"""The id of each call to a server of the Open Inference Protocol, and whether an answer has it.

A server repeats the id of a call in its answer. So each call goes out with an id that no other has,
and an answer with another one belongs to somebody else. What the caller gets has the caller's id,
or none: byte for byte as if there had been no other.
"""

from __future__ import annotations

import re
from collections.abc import Container

import orjson

from gateway.core import ambient
from gateway.protocols import strictjson

_MOST_IDS = 4096  # that are known to have been used, twice
_READ_BYTES = 256 * 1024  # of an answer without the id, to find another one in it
_LITERAL = rb'"id"\s*:\s*("(?:[^"\\]|\\.)*")'
_UNKNOWN = b"<id_unknown>"  # what Triton's errors say of a call without an id


class CallIds:
    """The ids of the calls to one endpoint."""

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._former: Container[int] = frozenset()

    def new(self, given: str) -> CallId:
        """`given`: the caller's id, or nothing. It goes out as it is if it has not lately."""
        if not given:
            return CallId("", ambient.new_id())
        mark = hash(given)
        if mark in self._recent or mark in self._former:
            return CallId(given, f"{given}.{ambient.new_id()}")
        if len(self._recent) >= _MOST_IDS:
            self._recent, self._former = set(), self._recent
        self._recent.add(mark)
        return CallId(given, given)


class CallId:
    __slots__ = ("_literal", "given", "sent")

    def __init__(self, given: str, sent: str) -> None:
        self.given = given
        self.sent = sent
        self._literal = strictjson.dumps(sent)

    def restored(self, text: bytes) -> bytes | None:
        """The JSON of an answer with the caller's id in the place of the one that was sent, or
        without one. None: it has not the one that was sent."""
        begin = b'{"id":' + self._literal
        if text.startswith(begin):  # as Triton writes it
            start, at = 1, len(begin)
        else:
            match = self._match(text)
            if match is None:
                return None
            start, at = match.span()
        if self.given == self.sent:
            return text
        if self.given:
            return b'%b"id":%b%b' % (text[:start], strictjson.dumps(self.given), text[at:])
        before, behind = text[:start], text[at:].lstrip()
        if behind.startswith(b","):
            behind = behind[1:]
        else:
            before = before.rstrip().removesuffix(b",")
        return before + behind

    def restored_words(self, body: bytes) -> bytes:
        """An error's text, which may name the call by its id."""
        if self.given == self.sent:
            return body
        words = strictjson.dumps(self.given)[1:-1] if self.given else _UNKNOWN
        return body.replace(self._literal[1:-1], words)

    def named_in(self, body: bytes) -> bool:
        """Whether an error's text has the id."""
        return self._literal[1:-1] in body

    def _match(self, text: bytes) -> _Span | None:
        """Where another server has written it: in other order, with spaces, or escaped."""
        for match in re.finditer(_LITERAL, text):
            literal = match[1]
            if literal == self._literal or _text(literal) == self.sent:
                return match
        return None


_Span = re.Match[bytes]


def other_id(text: bytes) -> bool:
    """Whether an answer has an id, of those that are short enough to be read for it."""
    if len(text) > _READ_BYTES or b'"id"' not in text:
        return False
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return isinstance(document, dict) and bool(document.get("id"))


def _text(literal: bytes) -> str | None:
    try:
        text = orjson.loads(literal)
    except orjson.JSONDecodeError:
        return None
    return text if isinstance(text, str) else None
