"""What of a call is taken for a document, and how documents of a call are judged."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.classify import ScanLate
from gateway.classify.classifier import Classifier
from gateway.classify.text.documents import FORMAT, Unread
from gateway.classify.text.documents.attachments import Attachment, detach
from gateway.config import ClassifySettings
from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall, Tightening

PNG = "data:image/png;base64,iVBORw0KGgo="
FILE = "data:text/plain;base64,aGVsbG8="
TEXT = {"type": "text", "text": "Summarise this"}
IMAGE = {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}
INPUT_IMAGE = {"type": "input_image", "image_url": PNG}
CHAT_FILE = {"type": "file", "file": {"filename": "a.txt", "file_data": FILE}}
INPUT_FILE = {"type": "input_file", "filename": "a.txt", "file_data": FILE}


def chat(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"model": "chat", "messages": [{"role": "user", "content": [TEXT, *parts]}]}


@pytest.mark.parametrize(
    ("part", "attachment"),
    [
        (IMAGE, Attachment("image/png", "iVBORw0KGgo=")),
        (INPUT_IMAGE, Attachment("image/png", "iVBORw0KGgo=")),
        (CHAT_FILE, Attachment("text/plain", "aGVsbG8=", "a.txt")),
        (INPUT_FILE, Attachment("text/plain", "aGVsbG8=", "a.txt")),
    ],
)
def test_a_document_is_taken_out_of_its_call(part: Any, attachment: Attachment) -> None:
    for field in ("messages", "input"):
        call = DocumentCall(CHAT, {"model": "chat", field: chat(part)["messages"]})
        rest, attachments = detach(call)
        assert attachments == [attachment]
        assert isinstance(rest, DocumentCall)
        assert rest.document[field] == [{"role": "user", "content": [TEXT]}]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
        {"type": "image_url", "image_url": {"url": PNG, "caption": "Ana Lopez"}},
        {"type": "image_url", "image_url": {"url": PNG}, "note": "Ana Lopez"},
        {"type": "image_url", "image_url": {"url": PNG, "detail": "Ana Lopez"}},
        {"type": "image_url", "image_url": {"url": FILE}},
        {"type": "image_url", "image_url": {"url": PNG + "Ana Lopez"}},
        {"type": "image_url", "image_url": {"url": PNG.replace(";", ";name=Ana;")}},
        {"type": "input_image", "image_url": PNG, "file_id": "f-1"},
        {"type": "input_image", "file_id": "f-1"},
        {"type": "file", "file": {"file_id": "f-1"}},
        {"type": "file", "file": {"file_data": FILE, "file_id": "f-1"}},
        {"type": "input_file", "file_url": "https://x.example/a.pdf"},
        {"type": "input_file", "file_data": "aGVsbG8="},
        {"type": "input_audio", "input_audio": {"data": "aGVsbG8=", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,aGVsbG8="}},
    ],
)
def test_what_is_not_as_the_api_has_it_stays_in_its_call(part: Any) -> None:
    call = DocumentCall(CHAT, chat(part))
    assert detach(call) == (call, [])


class Reader:
    """Says what it was made with, or raises it."""

    def __init__(self, *answers: list[str] | Exception) -> None:
        self.answers = list(answers)
        self.reads: list[Attachment] = []

    async def start(self) -> None: ...

    async def aclose(self) -> None: ...

    async def read(self, attachment: Attachment, budget_s: float) -> list[str]:
        self.reads.append(attachment)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def make(kit: Any, scanner: Any, reader: Reader | None, **settings: Any) -> Classifier:
    classify = ClassifySettings(profile="patterns", documents="read", **settings)
    classifier: Classifier = kit.make_classifier(
        kit.in_process(scanner), classify, documents=reader
    )
    return classifier


def verdict(classifier: Classifier, request: Any) -> str:
    async def both() -> str:
        first = await classifier.classify(request)
        return (await classifier.complete(request, first)).reason

    return asyncio.run(both())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (["all is well"], "clear"),
        (["card 4111 1111 1111 1111"], "entities"),
        (["data:image/png;base64,AAAA;"], "unscannable:data_url"),
        (Unread(FORMAT), FORMAT),
        (ScanLate(), "late"),
        (RuntimeError(), "failed"),
    ],
)
def test_only_a_document_that_was_read_and_is_clear_may_leave(
    answer: Any, reason: str, kit: Any, scanner: Any
) -> None:
    classifier = make(kit, scanner, Reader(answer))
    assert verdict(classifier, kit.make_request(chat(IMAGE))) == reason


def test_every_document_of_a_call_is_judged(kit: Any, scanner: Any) -> None:
    reader = Reader(["all is well"], ["card 4111 1111 1111 1111"])
    assert verdict(make(kit, scanner, reader), kit.make_request(chat(IMAGE, CHAT_FILE))) == (
        "entities"
    )


def test_a_call_that_stays_anyway_has_no_document_read(kit: Any, scanner: Any) -> None:
    reader = Reader()
    call = chat(IMAGE, {"type": "text", "text": "card 4111 1111 1111 1111"})
    assert verdict(make(kit, scanner, reader), kit.make_request(call)) == "entities"
    assert reader.reads == []


def test_documents_restrict_unread_where_the_settings_do_not_ask_for_them(
    kit: Any, scanner: Any
) -> None:
    classifier = make(kit, scanner, None)
    assert verdict(classifier, kit.make_request(chat(IMAGE))) == "unscannable:image"
    assert verdict(classifier, kit.make_request(chat(CHAT_FILE))) == "unscannable:file"


def test_a_document_is_read_once_for_its_tenant_and_policy(kit: Any, scanner: Any) -> None:
    card = "card 4111 1111 1111 1111"
    reader = Reader(["all is well"], [card], ["hello"], ["all is well"])
    added = Tightening(types=frozenset({"URL"}))
    classifier = make(kit, scanner, reader, memory={"verdicts": 10})
    request = kit.make_request(chat(IMAGE))
    assert verdict(classifier, request) == "clear"
    assert verdict(classifier, request) == "clear"
    assert len(reader.reads) == 1
    for other in (
        kit.make_request(chat(CHAT_FILE)),
        replace(request, tenant="other"),
        replace(request, tightening=added),
    ):
        verdict(classifier, other)
    assert len(reader.reads) == 4


def test_a_document_that_was_not_read_in_time_is_read_again(kit: Any, scanner: Any) -> None:
    classifier = make(kit, scanner, Reader(ScanLate(), ["all is well"]))
    other = kit.make_request({"model": "chat", "messages": chat(IMAGE)["messages"] * 1})
    assert verdict(classifier, replace(other, explained=True)) == "late"
    assert verdict(classifier, replace(other, explained=True)) == "clear"
