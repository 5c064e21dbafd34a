"""Looks for needles in a byte log, in every form in which a caller's words could have travelled.

Needles are looked for as they are, JSON-escaped, percent-encoded, in hex, in UTF-16 and in base64
at its three alignments; haystacks are each connection's whole stream (so that a needle split over
two packets is found), each HTTP body without its chunk framing and decompressed, each HTTP/2
stream's DATA frames put together, and each gRPC message and its metadata. What could not be read
is counted as opaque: an empty list of hits proves nothing about that.
"""

import base64
import dataclasses
import json
import urllib.parse
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import httptools

from gateway.demo.cloud import bytelog

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@dataclasses.dataclass(frozen=True, slots=True)
class NeedleHit:
    needle: str
    encoding: str
    door: str
    connection: int
    where: str


@dataclasses.dataclass(frozen=True, slots=True)
class SearchResult:
    hits: list[NeedleHit]
    opaque_bodies: int


@dataclasses.dataclass(frozen=True, slots=True)
class Haystack:
    door: str
    connection: int
    where: str
    data: bytes


def search(path: Path, needles: Sequence[str]) -> SearchResult:
    forms = [(needle, name, form) for needle in needles for name, form in encodings(needle)]
    hits: list[NeedleHit] = []
    opaque = 0
    for hay in _haystacks(bytelog.read(path)):
        if hay.where == "opaque":
            opaque += 1
            continue
        hits += [
            NeedleHit(needle, name, hay.door, hay.connection, hay.where)
            for needle, name, form in forms
            if form in hay.data
        ]
    return SearchResult(hits, opaque)


def encodings(needle: str) -> Iterator[tuple[str, bytes]]:
    plain = needle.encode()
    forms = {"plain": plain}
    escaped = json.dumps(needle)[1:-1]
    forms["json"] = escaped.encode()
    forms["json_unicode"] = json.dumps(needle, ensure_ascii=False)[1:-1].encode()
    forms["percent"] = urllib.parse.quote(needle, safe="").encode()
    forms["form"] = urllib.parse.quote_plus(needle).encode()
    forms["hex"] = plain.hex().encode()
    forms["hex_upper"] = plain.hex().upper().encode()
    forms["utf16"] = needle.encode("utf-16-le")
    for shift in range(3):
        inside = _base64_inside(plain, shift)
        forms[f"base64_{shift}"] = inside
        forms[f"base64url_{shift}"] = inside.replace(b"+", b"-").replace(b"/", b"_")
        forms[f"base64_json_{shift}"] = inside.replace(b"/", b"\\/")
    encoded: set[bytes] = set()
    for name, form in forms.items():
        if form and form not in encoded:
            encoded.add(form)
            yield name, form


def _base64_inside(plain: bytes, shift: int) -> bytes:
    """The characters that do not depend on what stands before and after the needle."""
    encoded = base64.b64encode(bytes(shift) + plain)
    first = -(-shift * 8 // 6)
    last = (shift + len(plain)) * 8 // 6
    return encoded[first:last]


def _haystacks(records: Iterable[bytelog.Record]) -> Iterator[Haystack]:
    streams: dict[tuple[str, int], bytearray] = {}
    for record in records:
        if record.kind == "bytes":
            streams.setdefault((record.door, record.connection), bytearray()).extend(record.data)
        else:
            yield Haystack(record.door, record.connection, record.kind, record.data)
    for (door, connection), stream in streams.items():
        data = bytes(stream)
        yield Haystack(door, connection, "stream", data)
        bodies = _http2_bodies if door == "grpc" else _http1_bodies
        for where, body in bodies(data):
            yield Haystack(door, connection, where, body)


class _Bodies:
    """The callbacks of httptools: gathers each request's body with its content-encoding."""

    def __init__(self) -> None:
        self.bodies: list[tuple[bytes, bytearray]] = []

    def on_message_begin(self) -> None:
        self.bodies.append((b"", bytearray()))

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-encoding":
            self.bodies[-1] = (value.strip().lower(), self.bodies[-1][1])

    def on_body(self, body: bytes) -> None:
        self.bodies[-1][1].extend(body)


def _http1_bodies(data: bytes) -> Iterator[tuple[str, bytes]]:
    gathered = _Bodies()
    parser = httptools.HttpRequestParser(gathered)
    try:
        parser.feed_data(data)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        yield "opaque", b""  # the stream itself was searched; what it held is not known
    for coding, body in gathered.bodies:
        yield from _decoded(coding, bytes(body))


def _decoded(coding: bytes, body: bytes) -> Iterator[tuple[str, bytes]]:
    yield "body", body
    if coding in (b"", b"identity") or not body:
        return
    windows = {b"gzip": (31,), b"x-gzip": (31,), b"deflate": (15, -15)}.get(coding, ())
    for window in windows:
        try:
            yield "decompressed", _inflated(window, body)
        except zlib.error:
            continue
        return
    yield "opaque", body


def _inflated(window: int, body: bytes) -> bytes:
    """Every member: a gzip body may hold several, one after the other (RFC 1952, section 2.2)."""
    plain = bytearray()
    while body:
        member = zlib.decompressobj(window)
        plain += member.decompress(body)
        body = member.unused_data
    return bytes(plain)


def _http2_bodies(data: bytes) -> Iterator[tuple[str, bytes]]:
    """RFC 9113, section 4.1: length (24), type (8), flags (8), stream (31), payload."""
    bodies: dict[int, bytearray] = {}
    # A log that was emptied while the connection was open has no preface any more.
    at = len(HTTP2_PREFACE) if data.startswith(HTTP2_PREFACE) else 0
    while at + 9 <= len(data):
        length, kind, flags = int.from_bytes(data[at : at + 3], "big"), data[at + 3], data[at + 4]
        stream = int.from_bytes(data[at + 5 : at + 9], "big") & 0x7FFFFFFF
        payload = data[at + 9 : at + 9 + length]
        at += 9 + length
        if kind != 0 or not payload:
            continue
        if flags & 0x8:  # PADDED
            payload = payload[1 : len(payload) - payload[0]]
        bodies.setdefault(stream, bytearray()).extend(payload)
    for body in bodies.values():
        yield "body", bytes(body)
