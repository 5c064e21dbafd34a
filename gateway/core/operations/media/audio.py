"""Sound: transcriptions and translations take it as a file, speech answers with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.core.errors import WRONG_TYPE, InvalidField
from gateway.core.operations.body import required
from gateway.core.operations.capabilities import PLAIN
from gateway.core.operations.spec import OperationSpec, StreamForm

_TEXTS: Final = frozenset({"text", "srt", "vtt"})
_FIELDS: Final = (
    "model", "prompt", "response_format", "temperature", "language", "stream", "user",
)  # fmt: skip


def _is_text(document: Mapping[str, Any]) -> bool:
    return document.get("stream") is not True and document.get("response_format") in _TEXTS


def _is_sound(document: Mapping[str, Any]) -> bool:
    return True


def _check_speech(document: dict[str, Any]) -> None:
    if not isinstance(required(document, "input"), str):
        raise InvalidField("input", "must be a string", WRONG_TYPE)


TRANSCRIPTIONS: Final = OperationSpec(
    name="audio.transcriptions",
    task="transcribe",
    path="/v1/audio/transcriptions",
    files={"file": "audio"},
    fields=dict.fromkeys(_FIELDS, PLAIN),
    answers_bytes=_is_text,
    stream=StreamForm.MEDIA,
    writes=True,
)
TRANSLATIONS: Final = OperationSpec(
    name="audio.translations",
    task="transcribe",
    path="/v1/audio/translations",
    files={"file": "audio"},
    fields=dict.fromkeys(_FIELDS, PLAIN),
    answers_bytes=_is_text,
    stream=StreamForm.MEDIA,
    writes=True,
)
_SPEECH_FIELDS: Final = (
    "model", "input", "voice", "instructions", "response_format", "speed", "stream_format", "user",
)  # fmt: skip
SPEECH: Final = OperationSpec(
    name="audio.speech",
    task="speak",
    path="/v1/audio/speech",
    check=_check_speech,
    references=dict.fromkeys(("ref_audio", "reference_audio", "audio_prompt"), "audio"),  # a voice
    fields=dict.fromkeys(_SPEECH_FIELDS, PLAIN),
    answers_bytes=_is_sound,
    stream=StreamForm.MEDIA,
)
