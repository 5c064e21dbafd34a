"""Heads and chunked bodies of HTTP/1.1, bodies in JSON, and what an endpoint may answer."""

from __future__ import annotations

import random

from loadtests.fuzz.http2_inputs import KEY
from loadtests.fuzz.inputs import Family

_PATHS = ("/v1/chat/completions", "/v1/embeddings", "/v2/models/simple/infer", "/healthz", "/%2e")


def _authorized(keyed: bool) -> bytes:
    return b"authorization: Bearer %b\r\n" % KEY.encode() if keyed else b""


# Heads: whole requests, one behind the other, and pieces of them


def head_alphabet(chance: random.Random, keyed: bool) -> bytes:
    path = chance.choice(_PATHS).encode()
    host = b"host: gateway\r\n" + _authorized(keyed)
    choices = (
        b"GET %b HTTP/1.1\r\n%b\r\n" % (path, host),
        b"POST %b HTTP/1.1\r\n%bcontent-length: 2\r\n\r\n{}" % (path, host),
        b"POST %b HTTP/1.1\r\n%bexpect: 100-continue\r\ncontent-length: 9\r\n\r\n" % (path, host),
        b"POST %b HTTP/1.1\r\n%btransfer-encoding: chunked\r\n\r\n" % (path, host),
        b"GET %b HTTP/1.1\r\n%bupgrade: h2c\r\nconnection: upgrade\r\n\r\n" % (path, host),
        b"GET /" + b"%2f" * chance.choice((1, 100, 5000)) + b" HTTP/1.1\r\n" + host + b"\r\n",
        b"x-%d: %b\r\n" % (chance.randrange(99), b"y" * chance.choice((0, 9, 9000))),
        b"\r\n", b"0\r\n\r\n", b"1\r\nx\r\n",
    )  # fmt: skip
    return chance.choice(choices)


def joined(segments: tuple[bytes, ...], keyed: bool) -> bytes:
    return b"".join(segments)


# Chunked bodies


def chunk_alphabet(chance: random.Random, keyed: bool) -> bytes:
    data = b"x" * chance.choice((1, 1, 10, 1000))
    extension = chance.choice((b"", b";x=y", b";" + b"z" * 1000))
    zeros = b"0" * chance.choice((0, 0, 10))
    return zeros + b"%x" % len(data) + extension + b"\r\n" + data + b"\r\n"


def chunk_render(segments: tuple[bytes, ...], keyed: bool) -> bytes:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\n%b" % _authorized(keyed)
    kind = b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + kind + b"".join(segments) + b"0\r\n\r\n"


# Bodies in JSON: what stands in a list within the call


def json_alphabet(chance: random.Random, keyed: bool) -> bytes:
    at = chance.randrange(10**6)
    choices = (
        b"[]", b"{}", b"[[]]", b'{"a":{}}', b"0", b"1e9", b"-1.5", b"null", b"true", b'""',
        b'"%d"' % at, b'{"k%d":1}' % at, b'"\\u00e9\\ud83d\\ude00"', b'"' + b"\\n" * 500 + b'"',
        b'{"role":"user","content":"call me at 555 0100 or write to a@b.example"}',
        b'{"role":"user","content":[{"type":"text","text":"%b"}]}' % (b"4111 " * 50),
        b'{"type":"image_url","image_url":{"url":"data:image/png;base64,%b"}}' % (b"QUJD" * 200),
        b'"' + b"a" * 5000 + b'"', b'"' + b"12-34 " * 900 + b'"',
        "\"Σ\u0301\u200bжज़\"".encode(),
    )  # fmt: skip
    return chance.choice(choices)


_PLACES = (
    (b"/v1/chat/completions", b'{"model":"chat","messages":[{"role":"user","content":"x"},', b"]}"),
    (b"/v1/chat/completions", b'{"model":"chat","messages":[],"metadata":[', b"]}"),
    (b"/v1/embeddings", b'{"model":"chat","input":[', b"]}"),
    (
        b"/v2/models/simple/infer",
        b'{"inputs":[{"name":"INPUT0","datatype":"INT64","shape":[1],"data":[',
        b"]}]}",
    ),
)


def json_render(segments: tuple[bytes, ...], keyed: bool) -> bytes:
    """The first segment decides where they stand."""
    path, before, after = _PLACES[sum(segments[0]) % len(_PLACES)]
    body = before + b",".join(segments) + after
    return b"POST %b HTTP/1.1\r\nhost: gateway\r\n%bcontent-length: %d\r\n%b\r\n\r\n%b" % (
        path, _authorized(keyed), len(body), b"content-type: application/json", body,
    )  # fmt: skip


# Answers of an endpoint, to a call of a good caller


def answer_alphabet(chance: random.Random, keyed: bool) -> bytes:
    choices = (
        b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n',
        b'data: {"id":"1","usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n',
        b"data: [DONE]\n\n", b": comment\n\n", b"\n", b"\r", b"data:\n", b"event: x\n",
        b"data: " + b"x" * chance.choice((1, 1000, 60_000)) + b"\n\n",
        b'data: {"error":{"message":"no"}}\n\n', b"data: [[[[[[[[\n\n", chance.randbytes(9),
    )  # fmt: skip
    return chance.choice(choices)


def answer_render(segments: tuple[bytes, ...], keyed: bool) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    return head + b"".join(segments)


def body_alphabet(chance: random.Random, keyed: bool) -> bytes:
    """Of a whole answer: what stands in it, whether that makes it JSON or not."""
    choices = (
        b"[],", b"{},", b"[", b"]", b'{"a":', b"}", b"0.0123,", b'"x",', b'"",', b" ",
        b'"usage":{},',
        b'"k%d":1,' % chance.randrange(10**6), b'"' + b"a" * chance.choice((9, 60_000)) + b'",',
        b'{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"},',
        b'"' + b'\\"' * chance.choice((1, 9000)) + b'",', chance.randbytes(9),
    )  # fmt: skip
    return chance.choice(choices)


def body_render(segments: tuple[bytes, ...], keyed: bool) -> bytes:
    """The first segment decides how its length is told."""
    body = b'{"id":"1","choices":[' + b"".join(segments) + b'0],"usage":{"total_tokens":1}}'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
    match sum(segments[0]) % 3:
        case 0:
            return head + b"content-length: %d\r\n\r\n" % len(body) + body
        case 1:
            return head + b"\r\n" + body
    size = 1 + len(segments[0])
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join([b"%x\r\n%b\r\n" % (len(part), part) for part in parts])
    return head + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


FAMILIES = (
    Family("heads", "http", head_alphabet, joined),
    Family("chunks", "http", chunk_alphabet, chunk_render),
    Family("json", "http", json_alphabet, json_render),
    Family("answers", "endpoint", answer_alphabet, answer_render),
    Family("bodies", "endpoint", body_alphabet, body_render),
)
