"""JSON (RFC 8259) without its ambiguities, so that what was scanned is what is sent.

A duplicate key is refused: Python keeps the last value and Triton executes the first (measured on
2.51), so a lenient parser lets a caller hide text from the scan. So are NaN and the infinities,
numbers that only an infinity could hold, lone surrogates, byte order marks, and depth beyond a cap.

orjson reads a body, which takes a fiftieth of the time; where its value may not be all that the
body says, and to say what is wrong, Python's own parser reads it again.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.core.errors import BodyTooLarge, MalformedBody

_HUGE = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{200}")  # 199 digits and e99 still fit a double
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_TOO_DEEP = "too deep"
_SHAPES = bytes(
    ord("0") if byte in b"0123456789" else byte if byte in b"." else ord(",") for byte in range(256)
)
"""Digits as zeros, and points; commas for all else."""
_LONG_INTEGER = b"," + b"0" * 19  # of so many digits on, orjson may read one as a float
_ALIKE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


@dataclass(frozen=True, slots=True)
class JsonBounds:
    """What the JSON of one body may have. The defaults are those of the settings."""

    members: int = 100_000  # objects, lists, and keys of objects
    values: int = 1_000_000
    size: int = 12 * 1024 * 1024  # bytes


BOUNDS = JsonBounds()
_SLICE_BYTES = 256 * 1024
_WARY_BYTES = 4 * 1024 * 1024  # a body of more is not read twice: the wary reader takes its time


def loads(body: bytes, max_depth: int = 64, bounds: JsonBounds = BOUNDS) -> Any:
    """The parsed value. Raises MalformedBody, or BodyTooLarge for more than the bounds; the message
    says what and where, never content."""
    return _sized(body, max_depth, bounds)[0]


def _sized(body: bytes, max_depth: int, bounds: JsonBounds) -> tuple[Any, int]:
    """The parsed value, and the bytes that `dumps` makes of it; 0 where they are not counted."""
    if len(body) > bounds.size:
        raise BodyTooLarge(
            f"the body has more than {bounds.size} bytes of JSON (limits.max_json_bytes)"
        )
    if len(body) > min(bounds.members, bounds.values):  # each takes a byte at least
        _check_bounds(body, bounds, max_depth)
    try:
        value = orjson.loads(body)
        again = orjson.dumps(value)
        if _is_complete(body, again, max_depth):
            return value, len(again)
        problem = "has a key twice, a number that is too long, or too many levels"
    except (orjson.JSONDecodeError, orjson.JSONEncodeError) as exc:
        problem = f"is not JSON: {_error_text(exc)}"
    # It is read again out of here, where no exception with the body in it is its context.
    if len(body) > _WARY_BYTES:
        raise MalformedBody(f"the body {problem}")
    return read_warily(body, max_depth), 0


def is_within(text: bytes, bounds: JsonBounds) -> bool:
    """Whether a JSON text has no more than that. Nothing of it is read, and each step is short."""
    if len(text) > bounds.size:
        return False
    return _within(text, bounds) or _within(b'""'.join(_unescaped(text).split(b'"')[::2]), bounds)


def _error_text(exc: Exception) -> str:
    at = getattr(exc, "pos", None)
    return "it cannot be read" if at is None else f"it cannot be read from character {at} on"


def _check_bounds(body: bytes, bounds: JsonBounds, max_depth: int) -> None:
    """Punctuation says how many there are; most bodies have little even with that in strings."""
    if _within(body, bounds):
        return
    outside = b'""'.join(_unescaped(body).split(b'"')[::2])
    if _within(outside, bounds):
        return
    first = outside[:_SLICE_BYTES].translate(_ALIKE, _NO_BRACKETS)[: max_depth + 1]
    if first == b"[" * (max_depth + 1):
        raise MalformedBody(f"the body nests deeper than {max_depth} levels")
    raise BodyTooLarge(
        f"the body has more than {bounds.members} JSON objects, lists and keys "
        f"(limits.max_json_members), or more than {bounds.values} values "
        "(limits.max_json_values)"
    )


def _within(text: bytes, bounds: JsonBounds) -> bool:
    members, commas = 0, 0
    for at in range(
        0, len(text), _SLICE_BYTES
    ):  # so that the first of many is not counted to the end
        piece = text[at : at + _SLICE_BYTES]
        members += piece.count(b"[") + piece.count(b"{") + piece.count(b":")
        commas += piece.count(b",")
        if members > bounds.members or commas >= bounds.values:
            return False
    return True


def _is_complete(body: bytes, again: bytes, max_depth: int) -> bool:
    """Whether nothing was lost on the way to what orjson read, and wrote again for that: no key
    stood twice, and no integer became a float. A pair that was dropped for its like took its key
    with it, and two quotation marks. As orjson writes most clients do."""
    if again == body and body.count(b"[") + body.count(b"{") <= max_depth:
        return True
    # One byte is looked for much faster than two. Where none of them is in what is written again, a
    # string of the body that has one was dropped, and is missed below.
    if b"\\" in again and b'\\"' in again:  # guard: C13.quoted-strings
        body, again = _unescaped(body), _unescaped(again)
    pieces = body.split(b'"')
    marks = len(again) - len(again.replace(b'"', b""))  # in a third of the time that count takes
    if marks != len(pieces) - 1:  # guard: C13.duplicate-key
        return False
    outside = b"".join(pieces[::2])  # of strings
    if _LONG_INTEGER in b"," + outside.translate(_SHAPES):  # guard: C13.float-exact
        return False
    return outside.count(b"[") + outside.count(b"{") <= max_depth or _nests(outside, max_depth)


def _unescaped(body: bytes) -> bytes:
    """Without the quotation marks that end no string."""
    return body.replace(b"\\\\", b"").replace(b'\\"', b"")


def _nests(outside: bytes, max_depth: int) -> bool:
    """Whether it does so no deeper than this; each turn takes away what is innermost."""
    brackets = outside.translate(_ALIKE, _NO_BRACKETS)
    for _ in range(max_depth):
        brackets = brackets.replace(b"[]", b"")
    return not brackets  # guard: C13.depth-bound not brackets -> True


def read_warily(body: bytes, max_depth: int = 64) -> Any:
    """What `loads` says, by the parser that tells what is wrong and reads integers of any size."""
    value, problem = _decoded(body)
    if problem == _TOO_DEEP:
        problem = f"the body nests deeper than {max_depth} levels"
    if problem:  # raised here, where no parser's exception, which holds the body, is its context
        raise MalformedBody(problem)
    if body.count(b"[") + body.count(b"{") > max_depth and _depth(value) > max_depth:
        raise MalformedBody(f"the body nests deeper than {max_depth} levels")
    if b"\\u" in body:
        _refuse_surrogates(value)
    return value


def _decoded(body: bytes) -> tuple[Any, str]:
    """The value, or what is wrong with the body."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as exc:
        return None, f"the body is not UTF-8 text: byte {exc.start}"
    decoder = _WARY if _HUGE.search(body) else _USUAL
    try:
        return decoder.decode(text), ""
    except json.JSONDecodeError as exc:
        return None, f"the body is not JSON: {exc.msg} at line {exc.lineno} column {exc.colno}"
    except RecursionError:
        return None, _TOO_DEEP
    except ValueError:  # an integer of over 4,300 digits
        return None, "the body has a number with too many digits"


def load_object(body: bytes, max_depth: int = 64, bounds: JsonBounds = BOUNDS) -> dict[str, Any]:
    return sized_object(body, max_depth, bounds)[0]


def sized_object(
    body: bytes, max_depth: int = 64, bounds: JsonBounds = BOUNDS
) -> tuple[dict[str, Any], int]:
    """The parsed object, and the bytes that `dumps` makes of it; 0 where they are not counted."""
    value, size = _sized(body, max_depth, bounds)
    if not isinstance(value, dict):
        raise MalformedBody("the body must be a JSON object")
    return value, size


def dumps(value: Any) -> bytes:
    """Compact UTF-8. Raises ValueError for what JSON cannot say."""
    try:
        return orjson.dumps(value)
    except TypeError:  # integers beyond 64 bits, which orjson refuses
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise MalformedBody("the body has an object with the same key twice")
    return document


def _no_constant(name: str) -> float:
    raise MalformedBody(f"the body has {name}, which is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise MalformedBody("the body has a number too large for a double")
    return value


_USUAL = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
_WARY = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
)


def _depth(value: Any) -> int:
    """Levels of nesting, without recursion."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [v for item in level for v in (item.values() if isinstance(item, dict) else item)]
    return depth


def _refuse_surrogates(value: Any) -> None:
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            todo.extend(item.keys())
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
        elif isinstance(item, str) and not item.isascii() and _SURROGATE.search(item):
            raise MalformedBody("the body has half of a surrogate pair")
