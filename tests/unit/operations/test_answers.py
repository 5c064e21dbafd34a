"""Answers that nobody reads, where answers are read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.unit.operations.conftest import House, house
from tests.unit.operations.other_apis import SOUND, SUBTITLES
from tests.unit.whole_gateway import records

OPEN, MASKED = "sesame-sesame-sesame", "barley-barley-barley"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("answers")


@pytest.fixture(scope="module", name="reading")
def _reading(scratch: Path) -> Iterator[House]:
    keys = {
        "open": {"key": "${OPEN}", "tenant": "t"},
        "masked": {"key": "${MASKED}", "tenant": "t", "mask_answers": True},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPEN", OPEN)
        patch.setenv("MASKED", MASKED)
        classify = {"names": {"engine": "off"}, "answers": "report"}
        with house(scratch, keys=keys, classify=classify) as made:
            yield made


def speak(made: House, key: str) -> httpx.Response:
    return made.client.post(
        "/v1/audio/speech",
        json={"model": "speak", "input": "Hello."},
        headers={"authorization": f"Bearer {key}"},
    )


def test_a_sound_is_withheld_from_who_may_not_hear_all(reading: House) -> None:
    assert speak(reading, OPEN).content == SOUND
    refused = speak(reading, MASKED)
    assert (refused.status_code, refused.headers["x-spillway-reason"]) == (403, "answer_withheld")


def test_a_transcript_is_masked_event_by_event(reading: House) -> None:
    words = ["My card is 4111", " 1111 1111", " 1111.", " Bye."]
    said = [{"type": "transcript.text.delta", "delta": word} for word in words]
    said.append({"type": "transcript.text.done", "text": "".join(words)})
    events = [b"data: %b\n\n" % json.dumps(event).encode() for event in said]
    reading.provider.script = lambda peer: peer.chunked("text/event-stream", events)
    try:
        answers = [
            reading.client.post(
                "/v1/audio/transcriptions",
                data={"model": "transcribe", "stream": "true"},
                files={"file": ("a.mp3", SOUND, "audio/mpeg")},
                headers={"authorization": f"Bearer {key}"},
            ).text
            for key in (OPEN, MASKED)
        ]
    finally:
        reading.provider.script = None
    assert answers[0].count("1111") == 6
    assert "1111" not in answers[1]
    assert "[CREDIT_CARD]" in answers[1]
    assert " Bye." in answers[1]


def test_subtitles_are_withheld_too(reading: House) -> None:
    for key, status in ((OPEN, 200), (MASKED, 403)):
        answer = reading.client.post(
            "/v1/audio/transcriptions",
            data={"model": "transcribe", "response_format": "srt"},
            files={"file": ("a.mp3", SOUND, "audio/mpeg")},
            headers={"authorization": f"Bearer {key}"},
        )
        assert answer.status_code == status
        assert status != 200 or answer.text == SUBTITLES


def test_what_nobody_reads_of_an_answer_is_told(tmp_path: Path) -> None:
    classify = {"names": {"engine": "off"}, "answers": "report"}
    with house(tmp_path, classify=classify) as made:
        assert made.client.post(
            "/v1/audio/speech", json={"model": "speak", "input": "Hello."}
        ).content == SOUND  # fmt: skip
    reasons = {record.get("answer_reason") for record in records(tmp_path, "answer")}
    assert reasons == {"answer_audio"}
