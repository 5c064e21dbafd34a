"""What a provider says of a call that it refuses, in any shape, as the OpenAI API would say it.

SDKs read `error.message`; providers also write a string there, FastAPI's `detail`, vLLM's
`object: error`, Google's list, problem documents (RFC 9457), or plain text. Nothing is taken out of
their words but credentials.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from gateway.endpoints.connectors.credential_mask import CredentialMask
from gateway.protocols import strictjson

_LONGEST = 4000  # characters of a message
_MOST_ITEMS = 16
_DEEPEST = 6
_HOLD_WORDS = (
    "error", "message", "Message", "detail", "details", "msg", "error_message", "errors",
    "description", "error_description", "title", "reason",
)  # fmt: skip
_TAGS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)


class ProviderWords:
    """Of one provider."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        """`values` of headers and the query go with every call and are repeated to nobody."""
        self._mask = CredentialMask(values)

    def message(self, body: bytes, status: int) -> bytes:
        """An error in the shape of the OpenAI API; as it came where it has that shape and no
        credential in it. Nothing if it says nothing."""
        body = self._mask.masked(body)  # guard: T5.provider-words
        document = _document(body)
        if isinstance(document, dict):
            error = document.get("error")
            if isinstance(error, dict) and isinstance(error.get("message"), str):
                return body
        message = " ".join(_text(document, 0).split())
        if not message:
            return b""
        return strictjson.dumps({"error": _error(message[:_LONGEST], document, status)})

    def within(self, error: object, status: int) -> bytes:
        """The same of an error within an answer."""
        return self.message(strictjson.dumps({"error": error}), status)


def _document(body: bytes) -> Any:
    """The JSON of a body, or its text."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        text = body.decode("utf-8", "replace").strip()
    if text.startswith("<"):
        return html.unescape(_TAGS.sub(" ", text))
    return "" if text[:1] in ("{", "[") else text


def _text(value: Any, depth: int) -> str:
    if isinstance(value, str):
        return value
    if depth > _DEEPEST:
        return ""
    if isinstance(value, list):
        texts = [_text(each, depth + 1) for each in value[:_MOST_ITEMS]]
        return "; ".join([text for text in texts if text])
    if not isinstance(value, dict):
        return ""
    for key in _HOLD_WORDS:
        if text := _text(value.get(key), depth + 1):
            return f"{_where(value)}{text}"
    return ""


def _where(document: Mapping[str, Any]) -> str:
    """Of a failure that FastAPI tells, the field."""
    at = document.get("loc")
    if not isinstance(at, list) or not at:
        return ""
    field = ".".join([str(each) for each in at[:_MOST_ITEMS] if each != "body"])
    return f"{field}: " if field else ""


def _error(message: str, document: Any, status: int) -> dict[str, Any]:
    """With the kind, the field and the code that stand beside the words."""
    fields = document[0] if isinstance(document, list) and document else document
    fields = fields if isinstance(fields, dict) else {}
    inner = fields.get("error")
    merged = {**fields, **inner} if isinstance(inner, dict) else fields
    kind, param, code = merged.get("type"), merged.get("param"), merged.get("code")
    usual = "invalid_request_error" if status < 500 else "server_error"
    return {
        "message": message,
        "type": kind if isinstance(kind, str) and kind != "error" else usual,
        "param": param if isinstance(param, str) else None,
        "code": code if isinstance(code, str | int) else None,
    }
