"""A gateway that reads documents: what is clear leaves with them, and nothing else does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("rapidocr", reason="the extra documents")
pytest.importorskip("pypdfium2", reason="the extra documents")

from gateway.demo.cloud.process import SimulatedCloud
from tests import made_documents as made
from tests.live import LiveGateway, LoopThread, serving, settings

MARKER = "amber quarry"
CLEAN = "The quarterly report\nRevenue rose by four percent in the northern region"
NAMED = f"Discharge letter {MARKER}\nThe patient Maria Gonzalez was discharged on Monday"


@pytest.fixture(scope="module")
def house(
    outside: SimulatedCloud, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveGateway]:
    """Whatever may leave does; names are looked for."""
    scratch = tmp_path_factory.mktemp("documents")
    classify = {"documents": "read", "budget_ms": 20_000}
    document = settings(outside, scratch, [], ["scribe"], classify=classify)
    document["routing"] = {"policy": "static_split"}
    painter = {"task": "images", "served_by": [{"endpoint": "cloud", "price_usd": 1.0}]}
    document["models"]["painter"] = painter
    with serving(document, scratch) as gateway:
        yield gateway


def sent(house: LiveGateway, data: bytes, media_type: str = made.PDF) -> tuple[str, str]:
    """Why it was restricted, or clear, and where it went."""
    file = {"filename": "report", "file_data": made.data_url(data, media_type)}
    content = [{"type": "text", "text": "Summarise this"}, {"type": "file", "file": file}]
    body: dict[str, Any] = {"model": "scribe", "max_tokens": 4}
    body["messages"] = [{"role": "user", "content": content}]
    answer = house.client.post("/v1/chat/completions", json=body, timeout=60)
    record = house.record(answer.headers["x-request-id"])
    return record["classify_reason"], answer.headers.get("x-spillway-zone", "")


def test_a_clear_document_leaves(house: LiveGateway) -> None:
    assert sent(house, made.pdf([CLEAN])) == ("clear", "cloud")


def test_a_picture_in_a_form_is_read(house: LiveGateway) -> None:
    """The simulated cloud makes none, but a clear call reaches it."""
    for words, verdict in ((CLEAN, ("clear", "cloud")), (NAMED, ("entities", ""))):
        answer = house.client.post(
            "/v1/images/edits",
            data={"model": "painter", "prompt": "Brighter, please."},
            files={"image": ("a.png", made.picture(*words.split("\n")), "image/png")},
            timeout=60,
        )
        record = house.record(answer.headers["x-request-id"])
        tried = "".join(attempt["zone"] for attempt in record["attempts"])
        assert (record["classify_reason"], tried) == verdict


def test_a_name_in_a_document_restricts(
    house: LiveGateway, outside: SimulatedCloud, loop_thread: LoopThread
) -> None:
    document = made.pdf([CLEAN, NAMED])
    assert sent(house, document)[0] == "entities"
    assert sent(house, document)[1] != "cloud"
    assert not loop_thread.run(outside.search([MARKER]))


@pytest.mark.parametrize("broken", [made.pdf([CLEAN])[:-400], b"%PDF-1.7 and no more"])
def test_a_broken_document_restricts(house: LiveGateway, broken: bytes) -> None:
    reason, zone = sent(house, broken)
    assert reason == "unscannable:document_format"
    assert zone != "cloud"
