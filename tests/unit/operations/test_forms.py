"""What is read of a form, wherever it stands; a picture's text is read elsewhere."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from gateway.classify.text.documents import MOST_BYTES
from gateway.classify.text.documents.attachments import detach
from gateway.classify.text.extract import Unscannable, extract_texts
from gateway.config.model_catalog import CatalogModel
from gateway.core.operations.media.audio import TRANSCRIPTIONS
from gateway.core.operations.media.images import EDITS
from gateway.core.operations.spec import OperationSpec
from gateway.core.types import DocumentCall, Payload
from gateway.protocols import multipart
from gateway.server.openai import forms
from tests.unit.operations.other_apis import PICTURE

CARD = "4111 1111 1111 1111"
IMAGE = ("a.png", PICTURE, "image/png")


def call(operation: OperationSpec, **fields: Any) -> DocumentCall:
    request = httpx.Request("POST", "http://a", files=fields)
    boundary = multipart.boundary(request.headers["content-type"])
    document, files = forms.read(operation, request.read(), boundary)
    return DocumentCall(operation, document, files=files)


def read(payload: Payload) -> list[str]:
    return extract_texts(payload, CatalogModel("m", "images", ()), 100_000)


@pytest.mark.parametrize(
    "fields",
    [
        {"image": (f"{CARD}.png", PICTURE, "image/png")},
        {"image": IMAGE, "mask": (f"{CARD}.png", PICTURE, "image/png")},
        {"image": IMAGE, "prompt": (None, CARD.encode())},
        {"image": IMAGE, CARD: (None, b"x")},
        {"image": IMAGE, "extra[]": (None, CARD.encode())},
    ],
)
def test_a_card_number_is_read_beside_a_picture(fields: dict[str, Any]) -> None:
    payload, _ = detach(call(EDITS, **fields))
    assert any(CARD in text for text in read(payload))


def test_a_picture_is_read_as_one_in_a_chat() -> None:
    payload, attachments = detach(call(EDITS, image=IMAGE, mask=IMAGE))
    assert [(a.media_type, a.filename) for a in attachments] == [("image/png", "a.png")] * 2
    assert "a.png" in read(payload)


@pytest.mark.parametrize(
    ("operation", "fields", "what"),
    [
        (EDITS, {"image": ("a.png", PICTURE, "application/pdf")}, "image"),
        (EDITS, {"image": ("a.png", bytes(MOST_BYTES + 1), "image/png")}, "image"),
        (EDITS, {"image": IMAGE, "other": IMAGE}, "file"),
        (TRANSCRIPTIONS, {"file": ("a.mp3", b"x", "audio/mpeg")}, "audio"),
        (TRANSCRIPTIONS, {"file": IMAGE}, "audio"),
    ],
)
def test_what_nobody_reads_restricts(
    operation: OperationSpec, fields: dict[str, Any], what: str
) -> None:
    payload, _ = detach(call(operation, **fields))
    with pytest.raises(Unscannable) as unread:
        read(payload)
    assert unread.value.reason == f"unscannable:{what}"


def test_pictures_restrict_where_none_is_read() -> None:
    with pytest.raises(Unscannable) as unread:
        read(call(EDITS, image=IMAGE))
    assert unread.value.reason == "unscannable:image"
