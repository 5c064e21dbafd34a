"""Google's `generateContent`, at the Gemini API (v1beta) and at Vertex AI (v1), by its schema as
published in November 2026."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from gateway.core.errors import UpstreamError
from gateway.core.types import JsonDocument, ServedModel
from gateway.endpoints.connectors.openai import failures
from gateway.endpoints.connectors.openai.dialects.gemini.answer import completion
from gateway.endpoints.connectors.openai.dialects.gemini.events import CandidateEvents
from gateway.endpoints.connectors.openai.dialects.gemini.request import request
from gateway.endpoints.connectors.openai.words import ProviderWords

_NO_KEY = "API_KEY_INVALID"
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")


class Gemini:
    """As a `Dialect`."""

    def request(
        self,
        document: JsonDocument,
        served: ServedModel,
        streamed: bool,
        as_json: Callable[[str], Any],
    ) -> JsonDocument:
        return request(document, served, as_json)

    def answer(self, body: bytes, words: ProviderWords, model: str) -> JsonDocument:
        return completion(body, words, model)

    def events(self, usage_wanted: bool, model: str) -> CandidateEvents:
        return CandidateEvents(usage_wanted, model)

    def failure(
        self, status: int, headers: Mapping[bytes, bytes], body: bytes, words: ProviderWords
    ) -> UpstreamError:
        """By a `google.rpc.Status` with its details. That a key is wrong is said with status 400;
        what it may not use, and where it may not be used, is the gateway's fault as well."""
        error = _error(body)
        details = error.get("details")
        known = [d for d in details if isinstance(d, dict)] if isinstance(details, list) else []
        code = error.get("status")
        if any(detail.get("reason") == _NO_KEY for detail in known):  # guard: S16.wrong-key
            status = 401
        elif status == 403 or code == "FAILED_PRECONDITION":
            return failures.error_from_status(403, headers, b"")
        message = error.get("message")
        if not isinstance(message, str):
            return failures.error_from_status(status, headers, words.message(body, status))
        kind = "invalid_request_error" if status < 500 else "server_error"
        shown = words.within(
            {"message": message, "type": kind, "param": None, "code": code}, status
        )
        return failures.error_from_status(status, {**headers, **_advice(known)}, shown)


def _error(body: bytes) -> Mapping[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    if isinstance(document, list) and document:  # streams without `alt=sse` are lists
        document = document[0]
    error = document.get("error") if isinstance(document, dict) else None
    return error if isinstance(error, dict) else {}


def _advice(details: Iterable[Mapping[str, Any]]) -> Mapping[bytes, bytes]:
    """What details say of another try, as the headers that say the same: `RetryInfo` has the
    seconds to wait, and a quota of a day is used up for longer."""
    headers = {}
    for detail in details:
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (seconds := _DELAY.fullmatch(delay)):
            headers[b"retry-after"] = seconds[1].encode()
        violations = detail.get("violations")
        for violation in violations if isinstance(violations, list) else ():
            if isinstance(violation, dict) and "PerDay" in str(violation.get("quotaId")):
                headers[b"x-should-retry"] = b"false"
    return headers
