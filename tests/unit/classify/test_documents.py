"""Documents in calls: read in full and judged, or restricted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("rapidocr", reason="the extra documents")
pytest.importorskip("pypdfium2", reason="the extra documents")

from gateway.classify.classifier import Classifier
from gateway.classify.text.documents.attachments import Attachment
from gateway.classify.text.documents.pool import DocumentPool
from gateway.config import ClassifySettings
from gateway.core.types import InferenceRequest
from tests import made_documents as made

CLEAN = "The quarterly report\nRevenue rose by four percent in the northern region"
NAMED = "Discharge letter\nPatient: Maria Gonzalez, born 1 February 1980, SSN 536-22-8726"


def part(data: bytes, media_type: str, filename: str = "report") -> dict[str, Any]:
    url = made.data_url(data, media_type)
    if media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": filename, "file_data": url}}


def call(*parts: dict[str, Any]) -> dict[str, Any]:
    content = [{"type": "text", "text": "Summarise this"}, *parts]
    return {"model": "chat", "messages": [{"role": "user", "content": content}]}


class Reading:
    """A classifier with processes that read documents, on a loop of its own."""

    def __init__(self, kit: Any, scanner: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.pool = DocumentPool(1, 4, 1 << 20)
        self.reads: list[Attachment] = []
        self._kit = kit
        settings = ClassifySettings(documents="read", profile="patterns")
        self.classifier: Classifier = kit.make_classifier(
            kit.in_process(scanner), settings, documents=self
        )

    async def start(self) -> None: ...

    async def aclose(self) -> None: ...

    async def read(self, attachment: Attachment, budget_s: float) -> list[str]:
        self.reads.append(attachment)
        return await self.pool.read(attachment, 60)

    def verdict(self, document: dict[str, Any], **fields: Any) -> str:
        request: InferenceRequest = self._kit.make_request(document, **fields)
        return self.loop.run_until_complete(self._verdict(request))

    async def _verdict(self, request: InferenceRequest) -> str:
        first = await self.classifier.classify(request)
        assert first.restricted or not first.complete
        return (await self.classifier.complete(request, first)).reason


@pytest.fixture(scope="module")
def reading(kit: Any, scanner: Any) -> Iterator[Reading]:
    reading = Reading(kit, scanner)
    yield reading
    reading.loop.run_until_complete(reading.pool.aclose())
    reading.loop.close()


KINDS = [
    pytest.param(lambda text: made.pdf([text]), made.PDF, id="pdf"),
    pytest.param(lambda text: made.word(*text.split("\n")), made.WORD, id="docx"),
    pytest.param(lambda text: made.excel(*[[t] for t in text.split("\n")]), made.EXCEL, id="xlsx"),
    pytest.param(lambda text: made.powerpoint("Title", text), made.POWERPOINT, id="pptx"),
    pytest.param(lambda text: made.mail(text), "message/rfc822", id="eml"),
    pytest.param(lambda text: f"<p>{text}</p>".encode(), "text/html", id="html"),
    pytest.param(lambda text: text.encode(), "text/plain", id="txt"),
]


@pytest.mark.parametrize(("make", "media_type"), KINDS)
def test_a_document_is_clear_or_restricts_by_what_it_says(
    make: Any, media_type: str, reading: Reading
) -> None:
    assert reading.verdict(call(part(make(CLEAN), media_type))) == "clear"
    assert reading.verdict(call(part(make(NAMED), media_type))) == "entities"
