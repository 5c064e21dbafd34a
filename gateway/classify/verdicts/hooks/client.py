"""One hook over HTTP: what a request to it holds, and what its answer means.

A guardrail answers `{"action": "allow" | "restrict" | "refuse"}`. A rule of an Open Policy Agent
(https://www.openpolicyagent.org/docs/rest-api#get-a-document-with-input) is given the same as
`input` and results in true, false (refused), or an object with `allow` and `restrict`.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from gateway.classify.verdicts.hooks import HookAnswer, NoAnswer
from gateway.config.sections.classify import HookSettings
from gateway.core.deadline import Deadline
from gateway.core.errors import GatewayError
from gateway.core.types import AT_ONCE_BYTES, Classification, DocumentCall, InferenceRequest
from gateway.protocols import strictjson
from gateway.protocols.http_client.origin import Origin, trusting
from gateway.protocols.http_client.wire import ConnectionPool, Header, WireRequest

_LONGEST_ANSWER: Final = 64 * 1024
_DEPTH: Final = 8
_REST_S: Final = 0.5  # of a connection between two calls: no answer says to which it belongs
_ACTIONS: Final = {answer.value: answer for answer in HookAnswer}


class Hook:
    def __init__(self, settings: HookSettings) -> None:
        """Raises ConfigError for a ca_file that cannot be read."""
        self.settings = settings
        ca_file = settings.ca_file
        tls = trusting(str(ca_file)) if ca_file and settings.url.startswith("https:") else None
        origin = Origin.from_url(settings.url, tls)
        self._path = "" if origin.base else "/"
        self._wire = ConnectionPool(
            origin,
            connect_timeout_s=settings.timeout_ms / 1000,
            max_body_bytes=_LONGEST_ANSWER,
            rest_s=_REST_S,
        )
        self._headers: tuple[Header, ...] = (
            (b"content-type", b"application/json"),
            *((n.lower().encode(), v.get_secret_value().encode())
              for n, v in settings.headers.items()),
        )  # fmt: skip

    def asks_about(self, model: str) -> bool:
        models = self.settings.models
        return models is None or model in models

    async def answer(
        self, request: InferenceRequest, classification: Classification, texts: list[str]
    ) -> HookAnswer:
        """`texts`: those of a call of tensors. Raises NoAnswer."""
        document = self._document(request, classification, texts)
        payload = request.payload
        size = payload.size if isinstance(payload, DocumentCall) else sum(map(len, texts))
        large = size > AT_ONCE_BYTES
        dumps = strictjson.dumps
        body = await asyncio.to_thread(dumps, document) if large else dumps(document)
        timeout_s = min(self.settings.timeout_ms / 1000, request.deadline.remaining_s())
        sent = WireRequest("POST", self._path, self._headers, (body,))
        try:
            # guard: K5.hook-time Deadline.after(timeout_s) -> Deadline.after(3600.0)
            answer = await self._wire.fetch(sent, Deadline.after(timeout_s))
            if answer.status != 200:
                raise NoAnswer
            return self._read(strictjson.load_object(answer.body, _DEPTH))
        except GatewayError:
            raise NoAnswer from None

    def _document(
        self, request: InferenceRequest, classification: Classification, texts: list[str]
    ) -> dict[str, Any]:
        attributes: dict[str, Any] = {
            "id": request.record_id,
            "tenant": request.tenant,
            "caller": request.caller,
            "model": request.model,
            "protocol": request.protocol.value,
            "sensitivity": classification.sensitivity.value,
            "reason": classification.reason,
            "entities": dict(classification.entities),
        }
        if self.settings.content:
            if isinstance(request.payload, DocumentCall):
                attributes["operation"] = request.payload.operation.name
                attributes["document"] = request.payload.document
            else:
                attributes["texts"] = texts
        return {"input": attributes} if self.settings.kind == "opa" else attributes

    def _read(self, answer: dict[str, Any]) -> HookAnswer:
        if self.settings.kind == "guardrail":
            action = answer.get("action")
            if isinstance(action, str) and action in _ACTIONS:
                return _ACTIONS[action]
            raise NoAnswer
        result = answer.get("result")
        if isinstance(result, dict):
            allowed, restricts = result.get("allow"), result.get("restrict", False)
        else:
            allowed, restricts = result, False
        if not isinstance(allowed, bool) or not isinstance(restricts, bool):
            raise NoAnswer
        if not allowed:
            return HookAnswer.REFUSE
        return HookAnswer.RESTRICT if restricts else HookAnswer.ALLOW

    async def aclose(self) -> None:
        await self._wire.aclose()
