"""The head of a request, read once for all calls whose header block is the same bytes."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import Any, Final

from gateway.protocols.http2.hpack import Field
from gateway.protocols.http2.message import is_grpc

_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_VALUE: Final = re.compile(rb"(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?")
"""RFC 9113, section 8.2.1: no space or tab at either end. gRPC's have ASCII alone."""
_METHOD: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SCHEME: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*")
_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNITS_S: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_PSEUDO: Final = frozenset({b":method", b":scheme", b":path", b":authority"})
_NEEDED: Final = frozenset({b":method", b":scheme", b":path"})
CONNECTION_FIELDS: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
_OURS: Final = frozenset({b"te", b"content-type", b"content-length", b"host"})
_ONCE: Final = frozenset(
    {b"content-type", b"content-length", b"host", b"grpc-timeout", b"grpc-encoding"}
)
_PATH: Final = re.compile(rb"/[\x21-\x7e]*")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")


class Http2RequestHead:
    """`malformed` says why it is no request (RFC 9113, section 8.1.1), `http_status` is of one
    that is not gRPC's, `refused` the words for one whose gRPC cannot be read; `usual` is one of
    which there is nothing of that to say. `length` is its `content-length`, and `trailers` says
    that the fields may stand behind a body: none is a pseudo-header, or frames it."""

    __slots__ = (
        "encoding", "http_status", "known", "length", "malformed", "metadata", "path", "refused",
        "timeout_s", "too_large", "trailers", "usual",
    )  # fmt: skip

    def __init__(self, fields: list[Field] | None) -> None:
        self.path = self.encoding = self.malformed = self.refused = ""
        self.metadata: tuple[tuple[str, str | bytes], ...] = ()
        self.timeout_s: float | None = None
        self.length: int | None = None
        self.trailers = False
        self.known: Any = None  # what its service made of it, and sees to that it still holds
        self.http_status = 200
        self.too_large = fields is None
        if fields is not None:
            self.malformed = self._read(fields)
        wrong = self.malformed or self.refused or self.too_large
        self.usual = not wrong and self.http_status == 200

    def _read(self, fields: list[Field]) -> str:
        pseudo: dict[bytes, bytes] = {}
        given: dict[bytes, bytes] = {}
        metadata: list[tuple[str, str | bytes]] = []
        for name, value in fields:
            if name[:1] == b":":
                if name in pseudo or name not in _PSEUDO or given or metadata:
                    return "a pseudo-header that stands twice, too late, or is none"
                pseudo[name] = value
            elif not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
                return "a header field whose name or value is none"
            elif name in CONNECTION_FIELDS or (name == b"te" and value != b"trailers"):
                return "a header field of HTTP/1.1"
            elif name in _OURS or name.startswith(b"grpc-"):
                if name in given and name in _ONCE:  # guard: A8.unique-header
                    return "a header field that stands twice"
                given[name] = value
            elif name.endswith(b"-bin"):
                metadata += [(name.decode(), each) for each in _binary(value)]
            else:
                metadata.append((name.decode(), value.decode()))
        self.trailers = not pseudo and b"content-length" not in given and b"host" not in given
        if not pseudo.keys() >= _NEEDED or not _targets(pseudo, given):
            return "no method, scheme, path or authority, or one that is none"
        if (length := given.get(b"content-length")) is not None:
            if not _LENGTH.fullmatch(length):
                return "a content-length that is no number"
            self.length = int(length)
        self.path = pseudo[b":path"].decode()
        self.metadata = tuple(metadata)
        if pseudo[b":method"] != b"POST":
            self.http_status = 405
        elif not is_grpc(given.get(b"content-type", b"")):
            self.http_status = 415
        self.encoding = given.get(b"grpc-encoding", b"").decode()
        if (timeout := given.get(b"grpc-timeout")) is not None:
            match = _TIMEOUT.fullmatch(timeout)
            if match is None:
                self.refused = (
                    "grpc-timeout: must be up to eight digits and one of H, M, S, m, u, n"
                )
            else:
                self.timeout_s = int(match[1]) * _UNITS_S[match[2]]
        return ""


def _targets(pseudo: dict[bytes, bytes], given: dict[bytes, bytes]) -> bool:
    """Whether they say where the request goes, and not two places (RFC 9113, section 8.3.1)."""
    authority = pseudo.get(b":authority", b"")
    host = given.get(b"host", authority)
    if authority and host.lower() != authority.lower():  # guard: A8.single-authority
        return False
    # guard: A8.single-path minus 3
    return bool(
        _METHOD.fullmatch(pseudo[b":method"])
        and _SCHEME.fullmatch(pseudo[b":scheme"])
        and _PATH.fullmatch(pseudo[b":path"])
        and _VALUE.fullmatch(authority)
        and b"@" not in authority
    )


def _binary(value: bytes) -> list[bytes]:
    """Values that are bytes come as base64, with padding or without, and many with commas."""
    values = []
    for part in value.split(b","):
        try:
            values.append(b64decode(part.strip() + b"=" * (-len(part.strip()) % 4), validate=True))
        except binascii.Error:
            continue
    return values
