"""What reached the simulated cloud is logged before it answers, and found in any form."""

import asyncio
import base64
import gzip
import json
import os
import signal
import sys
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc.aio as triton_grpc

from gateway.demo.cloud import bytelog
from gateway.demo.cloud.process import CloudFailed, SimulatedCloud
from gateway.demo.cloud.search import encodings

pytestmark = pytest.mark.anyio
MODELS = Path(__file__).parents[3] / "models"
MARKER = 'Zoë "Q" Marker-4711'


@pytest.fixture(scope="module")
async def process(anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud.start(MODELS, round_trip_median_ms=1.0, service_ms=0) as cloud:
        yield cloud


@pytest.fixture
async def cloud(process: SimulatedCloud) -> SimulatedCloud:
    await process.reset()
    return process


def _base64_at(shift: int) -> Callable[[str], bytes]:
    return lambda text: base64.b64encode(b"x" * shift + text.encode() + b"tail")


FORMS: dict[str, Callable[[str], bytes]] = {
    "plain": str.encode,
    "json": lambda text: json.dumps(text).encode(),
    "json_unicode": lambda text: json.dumps(text, ensure_ascii=False).encode(),
    "hex": lambda text: text.encode().hex().encode(),
    "utf16": lambda text: text.encode("utf-16-le"),
    "base64_0": _base64_at(0),
    "base64_1": _base64_at(1),
    "base64_2": _base64_at(2),
}


@pytest.mark.parametrize("form", FORMS)
async def test_a_marker_is_found_in_each_encoding(cloud: SimulatedCloud, form: str) -> None:
    assert await cloud.search([MARKER]) == []
    async with httpx.AsyncClient(trust_env=False, base_url=cloud.http_url) as client:
        await client.post("/anything", content=b"before" + FORMS[form](MARKER) + b"after")
    hits = await cloud.search(["never sent", MARKER])
    assert {hit.needle for hit in hits} == {MARKER}
    assert {hit.encoding for hit in hits} == {form}


@pytest.mark.parametrize(
    ("coding", "compress"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("gzip", lambda raw: gzip.compress(b"first") + gzip.compress(raw)),
    ],
)
async def test_a_marker_is_found_in_a_compressed_and_chunked_body(
    cloud: SimulatedCloud, coding: str, compress: Callable[[bytes], bytes]
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        packed = compress(MARKER.encode())
        for at in range(0, len(packed), 5):
            yield packed[at : at + 5]

    async with httpx.AsyncClient(trust_env=False, base_url=cloud.http_url) as client:
        await client.post("/x", content=chunks(), headers={"content-encoding": coding})
    assert {hit.where for hit in await cloud.search([MARKER])} == {"decompressed"}


async def test_a_body_that_cannot_be_read_proves_nothing(cloud: SimulatedCloud) -> None:
    async with httpx.AsyncClient(trust_env=False, base_url=cloud.http_url) as client:
        await client.post("/x", content=b"?", headers={"content-encoding": "br"})
    with pytest.raises(CloudFailed, match="could not be searched"):
        await cloud.search([MARKER])


async def test_request_lines_headers_and_split_packets_are_searched(cloud: SimulatedCloud) -> None:
    host, port = cloud.http_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, port)
    for part in (b"GET /in-the-pa", b"th HTTP/1.1\r\nhost: a\r\nx-note: in-a-hea", b"der\r\n\r\n"):
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0.02)
    await reader.readline()
    writer.close()
    found = {hit.needle for hit in await cloud.search(["in-the-path", "in-a-header"])}
    assert found == {"in-the-path", "in-a-header"}


async def test_an_unfinished_request_is_recorded(cloud: SimulatedCloud) -> None:
    host, port = cloud.http_url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, port)
    writer.write(b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 9999\r\n\r\nhalf-a-body")
    await writer.drain()
    async with asyncio.timeout(2):
        while not await cloud.search(["half-a-body"]):
            pass  # each search is a round trip to the process
    writer.close()


@pytest.mark.parametrize("compression", [None, "gzip"])
async def test_grpc_messages_and_metadata_are_searched(
    cloud: SimulatedCloud, compression: str | None
) -> None:
    inputs = [triton_grpc.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
    for tensor in inputs:
        tensor.set_data_from_numpy(np.ones((1, 16), np.int32))
    async with triton_grpc.InferenceServerClient(cloud.grpc_target) as client:
        await client.infer(
            "simple",
            inputs,
            request_id=MARKER,
            headers={"x-note": "in-the-metadata"},
            compression_algorithm=compression,
        )
    hits = await cloud.search([MARKER, "in-the-metadata"])
    assert ("message", MARKER) in {(hit.where, hit.needle) for hit in hits}
    assert ("metadata", "in-the-metadata") in {(hit.where, hit.needle) for hit in hits}
    if compression is None:
        assert "body" in {hit.where for hit in hits}


async def test_a_large_grpc_message_is_found_across_frames(cloud: SimulatedCloud) -> None:
    async with grpc.aio.insecure_channel(cloud.grpc_target) as channel:
        call = channel.unary_unary("/any.Service/Method", None, None)
        with pytest.raises(grpc.aio.AioRpcError):
            await call(b"0" * (16384 - 20) + MARKER.encode() + b"0" * 100_000)
    assert {"message", "body"} <= {hit.where for hit in await cloud.search([MARKER])}


async def test_the_log_is_on_disk_before_the_answer(tmp_path: Path, anyio_backend: str) -> None:
    log = tmp_path / "bytes.jsonl"
    async with SimulatedCloud.start(MODELS, log, round_trip_median_ms=0.0) as cloud:
        async with httpx.AsyncClient(trust_env=False, base_url=cloud.http_url) as client:
            await client.post("/x", content=b"kept-on-disk")
        os.kill(cloud.pid, signal.SIGKILL)
    assert any(b"kept-on-disk" in record.data for record in bytelog.read(log))


async def test_the_process_ends_with_its_block(anyio_backend: str) -> None:
    async with SimulatedCloud.start(MODELS) as cloud:
        pid, url = cloud.pid, cloud.http_url
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    async with httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(url)


async def test_bad_settings_keep_it_from_starting(anyio_backend: str) -> None:
    with pytest.raises(CloudFailed, match="unknown settings: weather"):
        async with SimulatedCloud.start(MODELS, weather="fine"):
            pytest.fail("it started")


async def test_an_orphan_ends_with_its_parent(tmp_path: Path, anyio_backend: str) -> None:
    """The parent here is a process of ours that is killed: no block ends, no handler runs."""
    script = (
        "import asyncio, sys; from pathlib import Path\n"
        "from gateway.demo.cloud.process import SimulatedCloud\n"
        "async def main():\n"
        "    async with SimulatedCloud.start(Path(sys.argv[1])) as cloud:\n"
        "        print(cloud.pid, flush=True)\n"
        "        await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert parent.stdout is not None
    orphan = int(await parent.stdout.readline())
    parent.kill()
    await parent.wait()
    async with asyncio.timeout(5):
        while _runs(orphan):  # noqa: ASYNC110 - another process sets no event of ours
            await asyncio.sleep(0.02)


def _runs(pid: int) -> bool:
    """A zombie that nobody has collected yet is not running."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def test_each_form_of_a_needle_is_looked_for_once(anyio_backend: str) -> None:
    forms: list[Any] = [form for _, form in encodings("plain")]
    assert len(forms) == len(set(forms))
    assert b"plain" in forms
