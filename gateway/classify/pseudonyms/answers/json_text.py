"""The strings of a JSON text restored where they stand; all else stays as it is, byte for byte.

The text is not parsed: a parser holds Python's lock until it is through, and makes objects of many
times the text's size. Here no step takes longer than a piece of a string does, so that other
threads, the event loop's among them, get their turn between any two of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from gateway.classify.pseudonyms.answers.restorer import Channel, Restorer
from gateway.classify.pseudonyms.documents import PROTOCOL_WORDS
from gateway.protocols import strictjson

UNCHANGED_KEYS = frozenset({"logprobs", "thought_signature"})
"""Keys whose values stay: the model's own tokens, surrogates in pieces, and what its endpoint has
signed, which has to come back as it is."""

_UNCHANGED = frozenset(key.encode() for key in UNCHANGED_KEYS)
_WORDS = frozenset(word.encode() for word in PROTOCOL_WORDS)
_COLON = re.compile(rb"[ \t\r\n]{0,64}:[ \t\r\n]{0,64}")
_BRACKET = re.compile(rb'["\[\]{}]')
_WINDOW = 1 << 20  # bytes that are searched in one step
_AT_ONCE = 16 * 1024  # bytes of a string that is read in one
_PIECE = re.compile(  # whole characters, and whole pairs of surrogates
    rb'(?:[^"\\]{1,256}[\x80-\xbf]{0,3}'
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|\\u[0-9a-fA-F]{4}|\\[^u]){1,64}"
)


class Stopped(Exception):
    """Nobody waits for it any more."""


def restored_text(
    text: bytes, restorer: Restorer, stopped: Callable[[], bool] = lambda: False
) -> bytes:
    """The same object when there is nothing to put back. `stopped` is asked before each string.
    Raises Stopped."""
    made: list[bytes] = []
    copied, at = 0, text.find(b'"')
    while at >= 0:
        if stopped():  # guard: A9.restore-cancel
            raise Stopped
        begin, end = at + 1, _string_end(text, at + 1)
        if end < 0:  # it is cut off
            break
        colon = _COLON.match(text, end + 1)
        if colon is not None:
            unchanged = end - begin < _AT_ONCE and text[begin:end] in _UNCHANGED
            at = text.find(b'"', _behind_value(text, colon.end()) if unchanged else colon.end())
            continue
        new = _restored(text, begin, end, restorer, stopped)
        if new is not None:
            made += (text[copied:begin], new)
            copied = end
        at = text.find(b'"', end + 1)
    if not made:
        return text
    return b"".join((*made, text[copied:]))


def _string_end(text: bytes, begin: int) -> int:
    """Where its closing quotation mark is; -1 where there is none."""
    end = text.find(b'"', begin)
    while end >= 0:
        first = end
        while first > begin and text[first - 1] == 0x5C:
            first -= 1
        if (end - first) % 2 == 0:
            return end
        end = text.find(b'"', end + 1)
    return -1


def _behind_value(text: bytes, at: int) -> int:
    first = text[at : at + 1]
    if first == b'"':
        return _string_end(text, at + 1) + 1 or len(text)
    if first not in (b"[", b"{"):
        return at
    depth = 0
    while at < len(text):
        match = _BRACKET.search(text, at, at + _WINDOW)
        if match is None:
            at += _WINDOW
            continue
        at = match.end()
        if match[0] == b'"':
            at = _string_end(text, at) + 1 or len(text)
            continue
        depth += 1 if match[0] in b"[{" else -1
        if not depth:
            return at
    return len(text)


def _restored(
    text: bytes, begin: int, end: int, restorer: Restorer, stopped: Callable[[], bool]
) -> bytes | None:
    """What stands between the quotation marks; None: as it was, or it cannot be read."""
    try:
        if end - begin < restorer.shortest:
            return None
        if end - begin <= _AT_ONCE:  # guard: A9.string-pieces always
            raw = text[begin:end]
            if raw in _WORDS:
                return None
            was = _read(raw)
            new = restorer.whole(was)
            return None if new == was else _written(new)
        channel, pieces, changed = Channel(restorer), [], False
        for was in _pieces(text, begin, end):
            if stopped():
                raise Stopped
            new = channel.feed(was)
            changed = changed or new != was
            pieces.append(_written(new))
        pieces.append(_written(channel.flush()))
    except ValueError:
        return None
    return b"".join(pieces) if changed else None


def _pieces(text: bytes, begin: int, end: int) -> Iterator[str]:
    """Raises ValueError for what is no string of JSON."""
    while begin < end:
        piece = _PIECE.match(text, begin, end)
        if piece is None:
            raise ValueError
        yield _read(piece[0])
        begin = piece.end()


def _read(raw: bytes) -> str:
    if b"\\" not in raw:
        return raw.decode()
    value: str = json.loads(b'"%b"' % raw, strict=False)
    return value


def _written(text: str) -> bytes:
    try:
        return strictjson.dumps(text)[1:-1]
    except ValueError:  # half of an emoji, which JSON can escape and UTF-8 cannot hold
        return json.dumps(text).encode()[1:-1]
