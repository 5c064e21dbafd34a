"""Signatures of what a model thought, in the one form that Google's API has: bytes in base64.

A signature of Google's goes on as it came. One of another API gets a mark in front, so that it
comes back in its own form.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

from gateway.core.types import JsonDocument

SIGNATURE: Final = "thought_signature"
"""Stands in `extra_content.google` of a call or a message, as in Google's own chats."""
_KINDS: Final = {b"thinking:": "thinking", b"redacted:": "redacted_thinking"}
_MARKS: Final = {kind: mark for mark, kind in _KINDS.items()}
_URL_SAFE: Final = str.maketrans("-_", "+/")


def standard(data: str) -> str:
    """Base64 in the alphabet that other APIs take; Google's SDK writes that of URLs."""
    return data.translate(_URL_SAFE)


def marked(kind: str, signature: str) -> str:
    return b64encode(_MARKS[kind] + signature.encode()).decode()


def foreign(signature: str) -> tuple[str, str] | None:
    """The kind of a thought and its own signature; None: it is one of Google's."""
    try:
        data = b64decode(standard(signature), validate=True)
        for mark, kind in _KINDS.items():
            if data.startswith(mark):
                return kind, data[len(mark) :].decode()
    except ValueError:
        return None
    return None


def extra(signature: str) -> JsonDocument:
    return {"google": {SIGNATURE: signature}}


def googles(holder: Mapping[str, Any]) -> str:
    """The signature in the message or call of an answer; empty: it has none."""
    stated = holder.get("extra_content")
    google = stated.get("google") if isinstance(stated, Mapping) else None
    signature = google.get(SIGNATURE) if isinstance(google, Mapping) else None
    return signature if isinstance(signature, str) else ""
