"""Frames of HTTP/2, header blocks, and messages of gRPC with and without gzip."""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from collections.abc import Callable

import hpack
from tritonclient.grpc import service_pb2

from loadtests.fuzz.inputs import Family

KEY = "spillway-fuzz"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
_METHODS = (
    "inference.GRPCInferenceService/ModelInfer",
    "inference.GRPCInferenceService/ModelStreamInfer",
    "inference.GRPCInferenceService/ServerLive",
    "inference.GRPCInferenceService/ModelMetadata",
    "grpc.health.v1.Health/Check",
    "grpc.health.v1.Health/Watch",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "nobody/knows",
)
_SMALL = hpack.Encoder()
_SAME = 0x7FFFFFFF  # a stream that stands for itself, and not for the newest


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    head = struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream)
    return head + payload


def _block(chance: random.Random, keyed: bool) -> bytes:
    """Without the dynamic table, so that it may be repeated, or with it."""
    fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/" + chance.choice(_METHODS[:2] if keyed else _METHODS)),
        (":authority", "gateway"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ]
    if keyed:
        fields.append(("authorization", f"Bearer {KEY}"))
    elif chance.random() < 0.3:
        fields.append(("authorization", "Bearer " + "x" * chance.choice((8, 1000, 8000))))
    if chance.random() < 0.3:
        fields.append(("grpc-encoding", chance.choice(("gzip", "deflate"))))
    if chance.random() < 0.3:
        fields += [(f"x-{at}", "y" * chance.choice((0, 10, 1000))) for at in range(20)]
    huffman = chance.random() < 0.5
    sensitive = [(n.encode(), v.encode(), True) for n, v in fields]
    block: bytes = hpack.Encoder().encode(sensitive, huffman=huffman)
    if chance.random() < 0.2:
        block = chance.choice((b"\x82", b"\xbe", b"\x00\x01x\x00", b"\x40\x01x\x00", b"\x20")) * (
            chance.choice((10, 1000, 60_000))
        )
    return block


def _setting(chance: random.Random) -> bytes:
    value = chance.choice((0, 1, 65_535, 1 << 20, (1 << 31) - 1))
    return struct.pack(">HI", chance.choice((1, 2, 3, 4, 5, 6, 0x99)), value)


def alphabet(chance: random.Random, keyed: bool) -> bytes:
    """One frame, which may be of the newest stream, of the one before, or of the connection."""
    stream = chance.choice((1, 1, 1, _SAME - 1, _SAME))
    kinds: tuple[Callable[[], bytes], ...] = (
        lambda: frame(HEADERS, chance.choice((4, 4, 5, 0)), 1, _block(chance, keyed)),
        lambda: frame(HEADERS, chance.choice((4, 5)), stream, _block(chance, keyed)),
        lambda: frame(CONTINUATION, chance.choice((0, 4)), 1, bytes(chance.choice((0, 1, 9000)))),
        lambda: frame(DATA, chance.choice((0, 0, 1, 8)), stream, _message(chance, keyed)),
        lambda: frame(
            DATA, chance.choice((0, 1)), stream, bytes(chance.choice((0, 1, 100, 16_384)))
        ),
        lambda: frame(SETTINGS, 0, 0, _setting(chance) * chance.choice((0, 1, 10, 64, 2000))),
        lambda: frame(SETTINGS, 1, 0),
        lambda: frame(PING, chance.choice((0, 1)), 0, bytes(8)),
        lambda: frame(
            WINDOW, 0, chance.choice((0, stream)), struct.pack(">I", chance.choice((1, 9)))
        ),
        lambda: frame(PRIORITY, 0, stream, bytes(5)),
        lambda: frame(RST, 0, stream, bytes(4)),
        lambda: frame(GOAWAY, 0, 0, bytes(chance.choice((8, 1000, 60_000)))),
        lambda: frame(chance.randrange(256), chance.randrange(256), stream, chance.randbytes(20)),
        lambda: frame(HEADERS, 5, 1, _block(chance, keyed)) + frame(RST, 0, 1, bytes(4)),
        lambda: (
            frame(HEADERS, 4, 1, _block(chance, keyed)) + frame(DATA, 1, 1, _message(chance, keyed))
        ),
    )
    return chance.choice(kinds)()


def render(segments: tuple[bytes, ...], keyed: bool) -> bytes:
    """Each head on stream 1 opens the next stream, and what follows it is of that."""
    newest = -1
    pieces = [PREFACE, frame(SETTINGS, 0, 0)]
    for segment in segments:
        at = 0
        while at + 9 <= len(segment):
            size = int.from_bytes(segment[at : at + 3])
            stream = int.from_bytes(segment[at + 5 : at + 9]) & _SAME
            if segment[at + 3] == HEADERS and stream == 1:
                newest += 2
            meant = {1: max(1, newest), _SAME: 1, _SAME - 1: max(1, newest - 2)}.get(stream, stream)
            pieces.append(
                segment[at : at + 5] + meant.to_bytes(4) + segment[at + 9 : at + 9 + size]
            )
            at += 9 + size
        pieces.append(segment[at:])
    return b"".join(pieces)


# Messages


def message(content: bytes, compressed: int = 0) -> bytes:
    return struct.pack(">BI", compressed, len(content)) + content


def _message(chance: random.Random, keyed: bool) -> bytes:
    content = _content(chance)
    if chance.random() < 0.3:
        packed = (
            gzip.compress(content, 9, mtime=0)
            if chance.random() < 0.7
            else zlib.compress(content, 9)
        )
        return message(packed, 1)
    return message(content)


def _content(chance: random.Random) -> bytes:
    count = chance.choice((1, 100, 10_000))
    request = service_pb2.ModelInferRequest(model_name="simple", id="x")
    match chance.randrange(8):
        case 0:
            request.inputs.add(name="INPUT0", datatype="BYTES", shape=[1])
            request.raw_input_contents.append(struct.pack("<I", count) + b"x" * count)
        case 1:
            for at in range(min(count, 2000)):
                request.inputs.add(name=f"n{at}", datatype="INT32", shape=[1])
        case 2:
            tensor = request.inputs.add(name="INPUT0", datatype="INT64", shape=[count])
            tensor.contents.int64_contents.extend([chance.choice((1, 300))] * count)
        case 3:
            tensor = request.inputs.add(name="INPUT0", datatype="BYTES", shape=[count])
            tensor.contents.bytes_contents.extend([b""] * count)
        case 4:
            for at in range(min(count, 2000)):
                request.parameters[f"p{at}"].int64_param = at
        case 5:
            return b"\x2a\x00" * count  # inputs of nothing
        case 6:
            return b"\x3a\x00" * count  # raw contents of nothing
        case _:
            return bytes(chance.choice((0, 1, 1000, 100_000, 1_000_000)))
    written: bytes = request.SerializeToString()
    return written


def call_alphabet(chance: random.Random, keyed: bool) -> bytes:
    """A part of one message: a tensor, a parameter, raw contents."""
    content = _content(chance)
    return content[: chance.choice((len(content), 2, 100))]


def call_render(segments: tuple[bytes, ...], keyed: bool) -> bytes:
    """One call, whose message they are."""
    content = b"".join(segments)
    fields = [
        (b":method", b"POST", True),
        (b":scheme", b"http", True),
        (b":path", b"/inference.GRPCInferenceService/ModelInfer", True),
        (b":authority", b"gateway", True),
        (b"content-type", b"application/grpc", True),
    ]
    if keyed:
        fields.append((b"authorization", b"Bearer " + KEY.encode(), True))
    whole = message(content)
    pieces = [PREFACE, frame(SETTINGS, 0, 0), frame(HEADERS, 4, 1, hpack.Encoder().encode(fields))]
    for at in range(0, len(whole), 1 << 14):
        last = at + (1 << 14) >= len(whole)
        pieces.append(frame(DATA, int(last), 1, whole[at : at + (1 << 14)]))
    return b"".join(pieces)


FAMILIES = (
    Family("frames", "grpc", alphabet, render),
    Family("messages", "grpc", call_alphabet, call_render),
)
