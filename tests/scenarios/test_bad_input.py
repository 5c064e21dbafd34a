"""What makes no sense is refused in its protocol's shape, with a reason, in bounded memory, and
reaches no backend."""

from __future__ import annotations

import gzip
import http.client
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import grpc
import httpx
import pytest

from gateway.demo.cloud.process import SimulatedCloud
from tests.live import LiveGateway, LoopThread

from . import malformed
from .refusals import Channel, Memory, Reached, of_openai, of_v2

CORPORA = Path(__file__).parents[3] / "shared" / "data" / "corpora"
INFER, CHAT = "/v2/models/simple/infer", "/v1/chat/completions"
READERS = {INFER: of_v2, CHAT: of_openai}
JSON = {"content-type": "application/json"}
CAP_MIB = 64  # limits.max_body_bytes, as it is by default


@pytest.fixture(scope="module")
def channel(gateway: LiveGateway) -> Iterator[Channel]:
    found = Channel(gateway.grpc_target)
    yield found
    found.close()


@pytest.fixture(scope="module", autouse=True)
def nothing_reached_a_backend(
    gateway: LiveGateway, cloud: SimulatedCloud, loop_thread: LoopThread
) -> Iterator[None]:
    before = Reached.now(gateway, cloud, loop_thread)
    yield
    assert Reached.now(gateway, cloud, loop_thread) == before


def post(gateway: LiveGateway, path: str, body: Any, **headers: str) -> httpx.Response:
    told = {**JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return gateway.client.post(path, content=body, headers=told)


# JSON


@pytest.mark.parametrize("path", READERS)
@pytest.mark.parametrize(("body", "words"), malformed.JSON)
def test_what_is_not_json_is_refused(
    gateway: LiveGateway, path: str, body: bytes, words: str
) -> None:
    refusal = READERS[path](post(gateway, path, body))
    assert (refusal.status, refusal.reason) == (400, "malformed_body")
    assert words in refusal.message


@pytest.mark.parametrize("path", READERS)
def test_every_file_that_a_json_parser_must_reject_is_refused(
    gateway: LiveGateway, path: str
) -> None:
    files = sorted((CORPORA / "JSONTestSuite").rglob("n_*.json"))
    if not files:
        pytest.skip("JSONTestSuite lies beside the repository, and is not there")
    for file in files:
        refusal = READERS[path](post(gateway, path, file.read_bytes()))
        assert (file.name, refusal.status) == (file.name, 400)
        assert refusal.message


# Documents and tensors


@pytest.mark.parametrize(("document", "words"), malformed.V2)
def test_tensors_that_do_not_add_up_are_refused(
    gateway: LiveGateway, document: dict[str, Any], words: str
) -> None:
    refusal = of_v2(post(gateway, INFER, malformed.written(document)))
    assert refusal.status == 400
    assert words in refusal.message


@pytest.mark.parametrize(("document", "tail", "length", "words"), malformed.V2_BINARY)
def test_raw_tensors_that_do_not_add_up_are_refused(
    gateway: LiveGateway, document: dict[str, Any], tail: bytes, length: int | str, words: str
) -> None:
    text = malformed.written(document)
    told = length if isinstance(length, str) else str(len(text) + length)
    answer = post(gateway, INFER, text + tail, inference_header_content_length=told)
    refusal = of_v2(answer)
    assert refusal.status == 400
    assert words in refusal.message


@pytest.mark.parametrize(("route", "document", "words"), malformed.OPENAI)
def test_openai_documents_that_cannot_be_placed_are_refused(
    gateway: LiveGateway, route: str, document: dict[str, Any], words: str
) -> None:
    refusal = of_openai(post(gateway, f"/v1/{route}", malformed.written(document)))
    assert refusal.status == 400
    assert words in refusal.message


@pytest.mark.parametrize(("raw", "code", "words"), malformed.GRPC)
def test_grpc_messages_that_do_not_add_up_are_refused(
    channel: Channel, raw: bytes, code: str, words: str
) -> None:
    refusal = channel.infer(raw)
    assert refusal.status == code
    assert words in refusal.message
    assert refusal.reason


def test_a_stream_refuses_message_by_message_and_goes_on(channel: Channel) -> None:
    told = channel.infer_streamed(*(raw for raw, _, _ in malformed.GRPC))
    assert len(told) == len(malformed.GRPC)
    for message, (_, _, words) in zip(told, malformed.GRPC, strict=True):
        assert words in message


# Heads


@pytest.mark.parametrize("path", READERS)
@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "a", "*/*"]
)
def test_other_content_types_are_refused(gateway: LiveGateway, path: str, media: str) -> None:
    refusal = READERS[path](post(gateway, path, b"{}", content_type=media))
    assert (refusal.status, refusal.reason) == (415, "unsupported_media_type")
    assert "application/json" in refusal.message


@pytest.mark.parametrize("path", READERS)
@pytest.mark.parametrize("coding", ["br", "zstd", "compress", "gzip, gzip", "gzip,deflate", "x"])
def test_other_encodings_are_refused(gateway: LiveGateway, path: str, coding: str) -> None:
    refusal = READERS[path](post(gateway, path, b"{}", content_encoding=coding))
    assert (refusal.status, refusal.reason) == (415, "unsupported_media_type")
    assert "send gzip, deflate" in refusal.message


@pytest.mark.parametrize("path", READERS)
def test_what_is_compressed_twice_is_inflated_once(gateway: LiveGateway, path: str) -> None:
    nested = gzip.compress(gzip.compress(b"{}"))
    refusal = READERS[path](post(gateway, path, nested, content_encoding="gzip"))
    assert (refusal.status, refusal.message) == (400, "the body is not UTF-8 text: byte 1")


# Size


def zeros(wbits: int, gib: int) -> bytes:
    """So many GiB of zeros, deflated. A block that ends in a full flush can be repeated."""
    stream = zlib.compressobj(9, wbits=-15)
    block = stream.compress(bytes(1 << 20)) + stream.flush(zlib.Z_FULL_FLUSH)
    empty = zlib.compressobj(wbits=wbits)
    head = empty.compress(b"") + empty.flush(zlib.Z_SYNC_FLUSH)
    return head + block * (gib << 10)


@pytest.mark.parametrize("path", READERS)
@pytest.mark.parametrize(("coding", "wbits"), [("gzip", 31), ("deflate", 15)])
def test_a_compressed_bomb_costs_no_more_than_the_cap(
    gateway: LiveGateway, path: str, coding: str, wbits: int
) -> None:
    bomb = zeros(wbits, gib=10)
    memory = Memory(gateway.process.pid)
    refusal = READERS[path](post(gateway, path, bomb, content_encoding=coding))
    assert (refusal.status, refusal.reason) == (413, "body_too_large")
    assert f"inflates to more than {CAP_MIB << 20} bytes" in refusal.message
    assert memory.peak_growth_mib() < 3 * CAP_MIB


@pytest.mark.parametrize("path", READERS)
def test_a_body_without_end_costs_no_more_than_the_cap(gateway: LiveGateway, path: str) -> None:
    piece = bytes(1 << 20)
    memory = Memory(gateway.process.pid)
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 1 << 32:
            sent += len(piece)
            yield piece

    refusal = READERS[path](post(gateway, path, endless()))
    assert (refusal.status, refusal.reason) == (413, "body_too_large")
    assert sent < 2 * CAP_MIB << 20
    assert memory.peak_growth_mib() < 3 * CAP_MIB


@pytest.mark.parametrize("path", READERS)
def test_a_body_announced_too_large_is_refused_before_it_comes(
    gateway: LiveGateway, path: str
) -> None:
    at = urlsplit(gateway.http_url)
    line = http.client.HTTPConnection(str(at.hostname), at.port, timeout=10)
    line.putrequest("POST", path)
    line.putheader("content-type", "application/json")
    line.putheader("content-length", str((CAP_MIB << 20) + 1))
    line.endheaders()
    answer = line.getresponse()
    assert answer.status == 413
    assert f"more than {CAP_MIB << 20} bytes" in answer.read().decode()
    line.close()


@pytest.mark.parametrize("compression", list(grpc.Compression))
def test_a_message_beyond_the_cap_is_refused(
    gateway: LiveGateway, channel: Channel, compression: grpc.Compression
) -> None:
    """Zeros: compressed, it is far below the cap until it is inflated."""
    message = malformed.message(raw=[bytes(4 * CAP_MIB << 20)])
    memory = Memory(gateway.process.pid)
    refusal = channel.infer(message, compression=compression)
    assert refusal.status == "RESOURCE_EXHAUSTED"
    assert "larger than max" in refusal.message
    assert memory.peak_growth_mib() < 3 * CAP_MIB


def test_refused_messages_are_not_kept(gateway: LiveGateway, channel: Channel) -> None:
    message = malformed.message(raw=[bytes(CAP_MIB // 2 << 20)])
    channel.infer(message)
    memory = Memory(gateway.process.pid)
    for _ in range(8):
        assert channel.infer(message).status == "INVALID_ARGUMENT"
    assert memory.peak_growth_mib() < 3 * CAP_MIB


# Names


NAUGHTY = [
    "", " ", "undefined", "null", "None", "../..", "..%2f..%2f", "a/../../repository/index",
    "simple/../minilm", "simple ", "SIMPLE", "simple\n", "simple\x00", "versions/1", "1/versions/1",
    "http://127.0.0.1:1/", "cloud/scribe", "'; DROP TABLE models;--", "<script>alert(1)</script>",
    "{{7*7}}", "${jndi:ldap://a/b}", "%s%s%n", "\u202eelpmis", "s\u0131mple", "\uff53imple",
    "\ufeffsimple", "\U0001f4a9", "4111111111111111", "x" * 4000,
]  # fmt: skip


def naughty() -> list[str]:
    corpus = CORPORA / "naughty_strings.json"
    return NAUGHTY + (json.loads(corpus.read_text()) if corpus.exists() else [])


def repeats(text: str, given: str) -> bool:
    return len(given) > 9 and given in text


def test_no_string_is_a_model_but_its_name(gateway: LiveGateway, channel: Channel) -> None:
    names = naughty()
    assert len(set(names)) >= len(NAUGHTY)
    for name in names:
        v2 = of_v2(post(gateway, f"/v2/models/{quote(name, safe='')}/infer", b'{"inputs":[]}'))
        body = malformed.written({**malformed.CHAT, "model": name})
        openai = of_openai(post(gateway, CHAT, body))
        over_grpc = channel.infer(malformed.message(model_name=name))
        assert (name, v2.status in (404, 405)) == (name, True)
        assert (name, openai.status, over_grpc.status) == (name, 404, "NOT_FOUND")
        assert not any(repeats(told.message, name) for told in (v2, openai, over_grpc))


def test_no_string_is_repeated_by_a_refusal(gateway: LiveGateway, channel: Channel) -> None:
    """Names, ids, types and parameters are free text of the caller's (C12)."""
    for text in naughty():
        tensor = {**malformed.GOOD, "name": text, "parameters": {text or "a": text}, "shape": [3]}
        for document in ({"inputs": [tensor]}, {"inputs": [{**malformed.GOOD, "datatype": text}]}):
            told = of_v2(post(gateway, INFER, malformed.written({**document, "id": text})))
            assert (text, told.status, repeats(told.message, text)) == (text, 400, False)
        over_grpc = channel.infer(
            malformed.message({**malformed.IN, "name": text}, model_version="x", id=text)
        )
        assert (text, over_grpc.status) == (text, "INVALID_ARGUMENT")
        assert not repeats(over_grpc.message, text)


def test_no_header_is_repeated_by_an_answer(gateway: LiveGateway) -> None:
    for text in naughty():
        value = text.strip()
        if not value.isascii() or not value.isprintable() or not value:
            continue
        for name in ("x-request-id", "traceparent", "x-spillway-placement", "x-spillway-priority"):
            answer = post(gateway, INFER, b"{", **{name: value})
            assert of_v2(answer).status == 400
            assert not repeats(answer.text + str(answer.headers), value)


# Routes


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/nowhere", 404),
        ("POST", "/v2/models/simple/nowhere", 405),
        ("GET", "/v2/models/simple/infer", 405),
        ("POST", "/v2/models/simple/versions/1.5/infer", 404),
        ("POST", "/v2/repository/models/simple/load", 404),
        ("POST", "/v2/repository/models/simple/unload", 404),
        ("GET", "/v2/logging", 404),
        ("POST", "/v2/trace/setting", 404),
        ("GET", "/v2/systemsharedmemory/status", 404),
        ("POST", "/v2/cudasharedmemory/region/a/register", 404),
        ("GET", "/v1/nowhere", 404),
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/v1/models/scribe", 405),
        ("POST", "/v1/files", 404),
        ("POST", "/v1/assistants", 404),
        ("GET", "/v1/files", 404),
        ("PATCH", "/v1/embeddings", 405),
    ],
)
def test_routes_that_are_not_offered_lead_nowhere(
    gateway: LiveGateway, method: str, path: str, status: int
) -> None:
    read = of_v2 if path.startswith("/v2") else of_openai
    refusal = read(gateway.client.request(method, path))
    assert refusal.status == status
    assert refusal.reason in ("unknown_route", "method_not_allowed", "not_offered")
    assert refusal.message


@pytest.mark.parametrize(
    "method",
    [
        "RepositoryModelLoad", "RepositoryModelUnload", "LogSettings", "TraceSetting",
        "SystemSharedMemoryStatus", "SystemSharedMemoryRegister", "SystemSharedMemoryUnregister",
        "CudaSharedMemoryStatus", "CudaSharedMemoryRegister", "CudaSharedMemoryUnregister",
        "NoSuchMethod",
    ],
)  # fmt: skip
def test_grpc_methods_that_are_not_offered_are_unimplemented(channel: Channel, method: str) -> None:
    for message in (b"", b"\x12\x06simple", b"\xff", b"\x0a" + b"\xff\x7f" + b"a" * 16383):
        assert channel.call(method, message).status == "UNIMPLEMENTED"
