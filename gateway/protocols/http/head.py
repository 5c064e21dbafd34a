"""The head of a request, and the refusal of heads that two parsers could read in two ways.

The parser (httptools) accepts two Host headers, and heads of any size. Behind `check` each header
that means something stands there once. `reader` bounds heads while they come and keeps trailers out
of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import httptools

from gateway.core.errors import MalformedBody, MethodNotAllowed, UnknownRoute

MAX_HEAD_BYTES = 32 * 1024
MAX_HEADERS = 100
MAX_PATH_BYTES = 2048

Field = tuple[bytes, bytes]

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OFFERED = ("GET", "HEAD", "POST")  # by any route at all
_REPEATABLE = frozenset(
    {b"accept", b"accept-encoding", b"accept-language", b"baggage", b"cache-control", b"cookie"}
    | {b"forwarded", b"pragma", b"tracestate", b"via", b"x-forwarded-for"}
)
_USUAL = frozenset(
    {b"host", b"accept", b"accept-encoding", b"accept-language", b"authorization", b"connection"}
    | {b"content-type", b"content-length", b"user-agent", b"x-request-id", b"traceparent"}
    | {b"x-latency-budget-ms", b"x-stainless-lang", b"x-stainless-package-version"}
    | {b"x-stainless-os", b"x-stainless-arch", b"x-stainless-runtime", b"x-stainless-async"}
    | {b"x-stainless-runtime-version", b"x-stainless-retry-count", b"x-stainless-read-timeout"}
)
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_HOST = re.compile(
    rb"(?:[A-Za-z0-9._~%!$&'()*+,;=-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?",
)
_PATH = re.compile(rb"/[\x21-\x7e]*")
_ODD = re.compile(r"[\x00-\x1f\x7f\\]|//|/\.{1,2}(?:/|$)")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_SLASH = re.compile(rb"%2[fF]")
_NAMED = re.compile(rb"/v(?:1|2|2/repository)/models/([^/]+)")
_ESCAPED_SLASH = "\x1f"  # no path that passes `check` has this character


class HttpHead:
    """What came before the body. Names of headers are in lower case."""

    __slots__ = (
        "authority", "fields", "headers", "known", "method", "path", "query", "raw_path", "version",
    )  # fmt: skip

    def __init__(self, method: str, target: bytes, version: str, fields: Sequence[Field]) -> None:
        """Raises httptools.HttpParserError when the target is no URL."""
        self.method = method
        self.version = version
        self.fields = fields  # as they came
        self.headers: Mapping[str, str] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(fields)
        }  # of those that may stand there twice, the first
        self.authority: bytes | None = None  # of a target in absolute form
        if not target.startswith(b"/"):
            url: Any = httptools.parse_url(target)  # its parts may be None, whatever is annotated
            self.authority = target.partition(b"://")[2].partition(b"/")[0].partition(b"?")[0]
            target = (url.path or b"") + (b"?" + url.query if url.query else b"")
        self.raw_path, _, self.query = target.partition(b"?")  # before anything was unquoted
        path = self.raw_path.decode("latin-1")
        self.path = unquote(path) if "%" in path else path
        self.known: Any = None  # what the fronts found out from it, for when it comes again

    @property
    def route(self) -> str:
        """The path by which routes are chosen (`route_path`)."""
        return route_path(self.raw_path)


def route_path(raw_path: bytes) -> str:
    """A path without its escapes, but that an escaped slash separates no segments: `name_in` makes
    it one of a name."""
    path = raw_path.decode("latin-1")
    if "%" not in path:
        return path
    return unquote(path.replace("%2F", _ESCAPED_SLASH).replace("%2f", _ESCAPED_SLASH))


def name_in(segments: str) -> str:
    """The name of a model that stands in a route, its own slashes escaped or not."""
    return segments.replace(_ESCAPED_SLASH, "/")


def check(head: HttpHead) -> None:
    """Raises RequestRejected; the message never repeats what it refuses."""
    fields = head.fields
    if head.method not in _METHODS:
        raise MethodNotAllowed("this method is not offered", _OFFERED)
    _check_path(head)
    if len(fields) > MAX_HEADERS:
        raise MalformedBody(
            f"the head has more than {MAX_HEADERS} headers", reason="head_too_large"
        )
    names = [name for name, _ in fields]
    _check_names(names)
    values = b"".join([value for _, value in fields])
    if not _plain(values):
        raise _odd_character()
    size = len(head.query) + sum(map(len, names)) + len(values) + 4 * len(fields)
    if size > MAX_HEAD_BYTES:
        raise MalformedBody(f"the head has over {MAX_HEAD_BYTES} bytes", reason="head_too_large")
    _check_framing(head.version, dict(fields), head.authority)


_BAD = "malformed_head"


def _check_path(head: HttpHead) -> None:
    if len(head.raw_path) > MAX_PATH_BYTES:
        raise UnknownRoute(f"the path has more than {MAX_PATH_BYTES} bytes")
    if not _PATH.fullmatch(head.raw_path) or _ODD.search(head.path):
        raise UnknownRoute("the path has dot segments, empty segments or odd characters")
    if _SLASH.search(head.raw_path) and not _in_a_name(head.raw_path):
        raise UnknownRoute("the path has an escaped slash where no name of a model stands")


def _in_a_name(path: bytes) -> bool:
    """Whether all escaped slashes are those of a model's name: they belong to it and separate
    nothing (`route_path`)."""
    name = _NAMED.match(path)
    return name is not None and not _SLASH.search(path, name.end())


def _check_names(names: Sequence[bytes]) -> None:
    once = set(names)
    if not _USUAL.issuperset(once) and not all(map(_NAME.fullmatch, once)):
        raise _odd_character()
    if len(once) == len(names):
        return
    names_: set[bytes] = set()
    for name in names:
        if name in names_ and name not in _REPEATABLE:
            raise MalformedBody(f"{_printable(name)}: must be sent once", reason=_BAD)
        names_.add(name)


def _plain(values: bytes) -> bool:
    if values.isascii() and values.decode("ascii").isprintable():  # much faster, and usual
        return True
    return not _CONTROL.search(values)


def _odd_character() -> MalformedBody:
    return MalformedBody("a header has a character that none may have", reason=_BAD)


def _check_framing(
    version: str, headers: Mapping[bytes, bytes], authority: bytes | None = None
) -> None:
    if version not in ("1.0", "1.1"):
        raise MalformedBody("the request must be of HTTP/1.1 or HTTP/1.0", reason=_BAD)
    if b"host" not in headers and version != "1.0":
        raise MalformedBody("host: is missing", reason=_BAD)
    if not _HOST.fullmatch(headers.get(b"host", b"")):
        raise MalformedBody("host: is not a host name or address", reason=_BAD)
    if authority is not None and authority.lower() != headers.get(b"host", authority).lower():
        raise MalformedBody("host: is another one than the target's", reason=_BAD)
    length = headers.get(b"content-length")
    if length is not None and not _LENGTH.fullmatch(length):
        raise MalformedBody("content-length: must be a number of bytes", reason=_BAD)
    coding = headers.get(b"transfer-encoding")
    if coding is None:
        return
    if length is not None:
        raise MalformedBody("content-length, transfer-encoding: send one of them", reason=_BAD)
    if coding.lower() != b"chunked" or version == "1.0":
        raise MalformedBody("transfer-encoding: only chunked is offered", reason=_BAD)


_KNOWN = re.compile(
    rb"host|authorization|content-[a-z]+|transfer-encoding|inference-header-content-length"
    rb"|x-request-id|traceparent|x-latency-budget-ms|x-spillway-[a-z]+"
)


def _printable(name: bytes) -> str:
    return name.decode() if _KNOWN.fullmatch(name) else "a header"
