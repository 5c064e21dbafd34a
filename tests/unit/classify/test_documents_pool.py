"""The processes that read documents: their limits, and what becomes of them."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import resource
import signal
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

pytest.importorskip("rapidocr", reason="the extra documents")
pytest.importorskip("pypdfium2", reason="the extra documents")

from gateway.classify import NoScan, ScanFailed, ScanLate, ScannersBusy, ScannerUnfit
from gateway.classify.text.documents import LARGE, Unread
from gateway.classify.text.documents.attachments import Attachment
from gateway.classify.text.documents.pool import DocumentPool, DocumentWorker
from tests import made_documents as made

HELLO = Attachment("text/plain", base64.b64encode(b"hello").decode(), "a.txt")


def attached(data: bytes, media_type: str) -> Attachment:
    return Attachment(media_type, base64.b64encode(data).decode())


def with_pool(work: Callable[[DocumentPool], Awaitable[object]], waiting: int = 4) -> None:
    async def main() -> None:
        pool = DocumentPool(1, waiting, 1 << 20)
        try:
            await pool.start()
            await work(pool)
        finally:
            await pool.aclose()

    asyncio.run(main())


def _pid(pool: DocumentPool) -> int:
    return pool._idle[0]._process.pid


def test_a_document_is_read_with_its_name() -> None:
    async def work(pool: DocumentPool) -> None:
        assert await pool.read(HELLO, 60) == ["a.txt", "hello"]

    with_pool(work)


def test_a_process_reads_on_after_a_document_that_it_cannot_read() -> None:
    async def work(pool: DocumentPool) -> None:
        before = _pid(pool)
        for data in (made.pdf(["a"])[:-300], b"\0", b"%PDF-"):
            with pytest.raises(Unread):
                await pool.read(attached(data, made.PDF), 60)
        assert (await pool.read(HELLO, 60))[1] == "hello"
        assert _pid(pool) == before

    with_pool(work)


def test_a_process_that_is_late_is_ended_and_another_reads_on() -> None:
    async def work(pool: DocumentPool) -> None:
        late = _pid(pool)
        os.kill(late, signal.SIGSTOP)
        with pytest.raises(ScanLate):
            await pool.read(HELLO, 0.2)
        with pytest.raises(ProcessLookupError):
            os.kill(late, 0)
        assert (await pool.read(HELLO, 60))[1] == "hello"

    with_pool(work)


def test_a_process_that_died_fails_its_document_alone() -> None:
    async def work(pool: DocumentPool) -> None:
        os.kill(_pid(pool), signal.SIGSTOP)
        reading = asyncio.create_task(pool.read(HELLO, 60))
        pid = _pid(pool)
        await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ScanFailed):
            await reading
        assert (await pool.read(HELLO, 60))[1] == "hello"

    with_pool(work)


def test_more_calls_than_may_wait_are_refused() -> None:
    async def work(pool: DocumentPool) -> None:
        os.kill(_pid(pool), signal.SIGSTOP)
        waiting = [asyncio.create_task(pool.read(HELLO, 0.5)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(ScannersBusy):
            await pool.read(HELLO, 0.5)
        for task in waiting:
            with pytest.raises(NoScan):
                await task

    with_pool(work, waiting=3)


def test_a_process_has_so_much_memory_and_no_more() -> None:
    """The limit holds for libraries in C, too: it is the kernel's."""

    async def work(pool: DocumentPool) -> None:
        assert resource.prlimit(_pid(pool), resource.RLIMIT_AS)[0] == 3 << 30
        assert resource.prlimit(_pid(pool), resource.RLIMIT_FSIZE)[0] == 0

    with_pool(work)


@pytest.mark.parametrize(
    ("module", "source", "words"),
    [
        ("rapidocr", "raise ModuleNotFoundError(name='rapidocr')", "the extra documents"),
        ("rapidocr", "class RapidOCR:\n    def __init__(self, params): 1 / 0", "its samples"),
        ("pypdfium2", "", "the extra documents|its samples"),
    ],
)
def test_a_process_that_misses_its_samples_is_unfit(
    module: str, source: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ScannerUnfit, match=words):
        asyncio.run(DocumentWorker.start())


def test_a_bomb_is_refused_by_its_size() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<a/>")
        for number in range(3):
            archive.writestr(f"word/{number}.xml", bytes(60 << 20))

    async def work(pool: DocumentPool) -> None:
        with pytest.raises(Unread) as refused:
            await pool.read(attached(out.getvalue(), made.WORD), 60)
        assert refused.value.reason == LARGE

    with_pool(work)
