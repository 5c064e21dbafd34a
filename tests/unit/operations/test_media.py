"""Sound and pictures, by the openai SDK and by hand: what goes on, and what stays."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.unit.operations.conftest import House, house
from tests.unit.operations.other_apis import PICTURE, SOUND, SPOKEN, SUBTITLES

TEXT = "".join(SPOKEN)


def sound(name: str = "morning.mp3") -> tuple[str, bytes, str]:
    return (name, SOUND, "audio/mpeg")


def test_a_recording_is_transcribed_on_the_premises(house: House) -> None:
    raw = house.sdk.audio.transcriptions.with_raw_response.create(
        model="transcribe", file=sound(), prompt="Greetings.", temperature=0.5,
        timestamp_granularities=["word", "segment"],
    )  # fmt: skip
    assert raw.parse().text == TEXT
    assert raw.headers["x-spillway-zone"] == "onprem"
    assert raw.headers["x-spillway-sensitivity"] == "restricted"
    (call,) = house.taken()
    assert call.path == "/onprem/v1/audio/transcriptions"
    assert call.files == [("file", "morning.mp3", "audio/mpeg", SOUND)]
    assert call.fields == {
        "model": "its-transcribe", "prompt": "Greetings.", "temperature": "0.5",
        "timestamp_granularities[]": ["word", "segment"],
    }  # fmt: skip


def test_a_recording_is_translated_and_subtitled(house: House) -> None:
    assert house.sdk.audio.translations.create(model="transcribe", file=sound()).text == TEXT
    written: Any = house.sdk.audio.transcriptions.create(
        model="transcribe", file=sound(), response_format="srt"
    )
    assert written == SUBTITLES
    assert [call.path for call in house.taken()] == [
        "/onprem/v1/audio/translations", "/onprem/v1/audio/transcriptions",
    ]  # fmt: skip


def test_a_transcript_is_streamed_to_its_last_event(house: House) -> None:
    with house.sdk.audio.transcriptions.create(
        model="transcribe", file=sound(), stream=True
    ) as stream:
        events: list[Any] = list(stream)
    assert [event.type for event in events] == ["transcript.text.delta"] * 3 + [
        "transcript.text.done"
    ]
    assert "".join(event.delta for event in events[:-1]) == events[-1].text == TEXT


def test_a_transcript_that_breaks_off_is_an_error(house: House) -> None:
    event = b'data: {"type": "transcript.text.delta", "delta": "Good"}\n\n'
    house.provider.script = lambda peer: peer.chunked("text/event-stream", [event])
    try:
        with (
            pytest.raises(openai.APIError),
            house.sdk.audio.transcriptions.create(
                model="transcribe", file=sound(), stream=True
            ) as stream,
        ):
            list(stream)
    finally:
        house.provider.script = None


def test_a_recording_does_not_leave(house: House) -> None:
    with pytest.raises(openai.APIStatusError) as refused:
        house.sdk.audio.transcriptions.create(model="transcribe-cloud", file=sound())
    assert refused.value.status_code == 503
    assert refused.value.response.headers["x-spillway-reason"] == "onprem_unavailable_restricted"
    assert house.taken() == []


def test_a_recording_that_is_only_described_restricts(house: House) -> None:
    asked = {"path": "/v1/audio/transcriptions", "body": {"model": "transcribe-cloud"}}
    explained = house.client.post("/spillway/explain", json=asked).json()
    assert explained["classify_reason"] == "unscannable:audio"


def test_a_recording_of_a_public_model_may_leave(house: House) -> None:
    raw = house.sdk.audio.transcriptions.with_raw_response.create(
        model="transcribe-public", file=sound()
    )
    assert raw.headers["x-spillway-zone"] == "cloud"
    (call,) = house.taken()
    assert (call.path, call.files[0][3]) == ("/cloud/v1/audio/transcriptions", SOUND)


def test_speech_comes_as_bytes(house: House) -> None:
    with house.sdk.audio.speech.with_streaming_response.create(
        model="speak-cloud", voice="alloy", input="Good morning."
    ) as answer:
        assert answer.headers["content-type"] == "audio/mpeg"
        assert answer.headers["x-spillway-zone"] == "cloud"
        spoken = answer.read()
    assert spoken == SOUND
    (call,) = house.taken()
    assert call.fields == {"model": "its-speak", "voice": "alloy", "input": "Good morning."}


def test_speech_that_breaks_off_is_cut(house: House) -> None:
    house.provider.script = lambda peer: peer.chunked("audio/mpeg", [SOUND], whole=False)
    try:
        with pytest.raises(httpx.HTTPError):
            house.client.post("/v1/audio/speech", json={"model": "speak", "input": "Hello."})
    finally:
        house.provider.script = None


def test_speech_without_end_is_cut(tmp_path: Path) -> None:
    with house(tmp_path, limits={"max_answer_bytes": 3 * len(SOUND)}) as small:
        speech = {"model": "speak", "input": "Hello."}
        assert small.client.post("/v1/audio/speech", json=speech).content == SOUND
        small.provider.script = lambda peer: peer.chunked("audio/mpeg", [SOUND] * 4)
        with pytest.raises(httpx.HTTPError):
            small.client.post("/v1/audio/speech", json=speech)


def test_speech_of_no_media_type_is_a_failure(house: House) -> None:
    house.provider.script = lambda peer: peer.chunked("", [SOUND])
    try:
        answer = house.client.post("/v1/audio/speech", json={"model": "speak", "input": "Hello."})
    finally:
        house.provider.script = None
    assert answer.status_code == 502


def test_pictures_are_made_changed_and_varied(house: House) -> None:
    assert house.sdk.images.generate(model="images-cloud", prompt="A cat.", n=1).data
    (call,) = house.taken()
    assert (call.path, call.fields["prompt"]) == ("/cloud/v1/images/generations", "A cat.")
    picture = ("cat.png", PICTURE, "image/png")
    house.sdk.images.edit(model="images", image=[picture, picture], mask=picture, prompt="A hat.")
    house.sdk.images.create_variation(model="images", image=picture)
    edited, varied = house.taken()
    assert [file[0] for file in edited.files] == ["image[]", "image[]", "mask"]
    assert edited.fields == {"model": "its-images", "prompt": "A hat."}
    assert [call.path for call in (edited, varied)] == [
        "/onprem/v1/images/edits", "/onprem/v1/images/variations",
    ]  # fmt: skip
    with pytest.raises(openai.APIStatusError):
        house.sdk.images.create_variation(model="images-cloud", image=picture)
    assert house.taken() == []


def test_what_is_no_form_is_refused(house: House) -> None:
    path = "/v1/audio/transcriptions"
    answer = house.client.post(path, json={"model": "transcribe"})
    assert answer.status_code == 415
    answer = house.client.post(path, data={"model": "transcribe"}, files={"other": sound()})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "file")
    twice = [("model", (None, b"transcribe")), ("model", (None, b"transcribe-public"))]
    answer = house.client.post(path, files=[("file", sound()), *twice])
    assert (answer.status_code, answer.headers["x-spillway-reason"]) == (400, "malformed_body")
    assert house.taken() == []


def test_a_large_recording_is_not_counted_as_text(house: House) -> None:
    large = io.BytesIO(SOUND * 40)
    large.name = "long.wav"
    assert house.sdk.audio.transcriptions.create(model="transcribe", file=large).text == TEXT
    (call,) = house.taken()
    assert call.files[0][3] == SOUND * 40
