"""Answers to pages of other sites (CORS, the Fetch standard): who may read them, from a browser.

Calls that name no `origin` pass as they are. A preflight is answered here, before anybody is asked
for a credential, which a browser sends with none; it says what would be let through and nothing of
the gateway.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from gateway.config.sections.listen import CorsSettings
from gateway.core.errors import RequestRejected
from gateway.protocols.http.connection import App
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.http.head import check

ANY: Final = "*"
_HEADERS: Final = frozenset(
    (  # noqa: SIM905 - thirty lines as a list
        "accept accept-language anthropic-beta anthropic-dangerous-direct-browser-access "
        "anthropic-version api-key authorization content-encoding content-language content-type "
        "idempotency-key inference-header-content-length traceparent tracestate x-api-key "
        "x-goog-api-client x-goog-api-key "
        "x-latency-budget-ms x-request-id x-spillway-placement x-spillway-priority "
        "x-spillway-sensitivity x-spillway-spill x-spillway-translation"
    ).split()
)
"""That the gateway reads, and those that browsers and SDKs send by themselves."""
EXPOSED: Final = (
    "x-request-id", "request-id", "traceparent", "x-spillway-translation", "x-spillway-zone",
    "x-spillway-endpoint", "x-spillway-reason", "x-spillway-class",
    "x-spillway-attempts", "x-spillway-sensitivity", "x-spillway-classify-ms",
    "x-spillway-pseudonymised", "x-spillway-unrestored", "retry-after", "retry-after-ms",
    "ratelimit-policy", "ratelimit", "www-authenticate", "x-should-retry",
    "x-amzn-requestid", "x-amzn-errortype",
    "inference-header-content-length",
)  # fmt: skip
"""Of answers, that pages may read."""
_SDK: Final = "x-stainless-"
_METHODS: Final = "GET, HEAD, POST"


class CrossOrigin:
    """An app in front of another."""

    def __init__(self, app: App, settings: CorsSettings) -> None:
        self._app = app
        self._origins = frozenset(settings.origins)
        self._headers = _HEADERS.union(name.lower() for name in settings.headers)
        self._credentials = settings.credentials
        self._max_age_s = settings.max_age_s

    def __call__(self, exchange: HttpExchange) -> Coroutine[Any, Any, None]:
        origin = exchange.headers.get("origin")
        if origin is None:
            return self._app(exchange)
        allowed = self._allowed(origin)  # guard: S18.origin -> allowed = origin
        if not allowed:
            return self._app(exchange)
        lines = f"access-control-allow-origin: {allowed}\r\n"
        if allowed != ANY:
            lines += "vary: origin\r\n"
        if self._credentials:
            lines += "access-control-allow-credentials: true\r\n"
        method = exchange.headers.get("access-control-request-method")
        if exchange.head.method == "OPTIONS" and method is not None:
            return self._preflight(exchange, lines)
        exchange.answer_with(f"{lines}access-control-expose-headers: {', '.join(EXPOSED)}\r\n")
        return self._app(exchange)

    def _allowed(self, origin: str) -> str:
        """What the answer says of it; nothing if it may not."""
        if ANY in self._origins:
            return ANY
        return origin if origin in self._origins else ""

    async def _preflight(self, exchange: HttpExchange, lines: str) -> None:
        try:
            check(exchange.head)
        except RequestRejected:
            await self._app(exchange)
            return
        requested = exchange.headers.get("access-control-request-headers", "").lower()
        names = [name for name in map(str.strip, requested.split(",")) if self._may_send(name)]
        exchange.reply(
            204,
            f"{lines}access-control-allow-methods: {_METHODS}\r\n"
            f"access-control-allow-headers: {', '.join(names)}\r\n"
            f"access-control-max-age: {self._max_age_s}\r\n",
            b"",
        )

    def _may_send(self, name: str) -> bool:
        return name in self._headers or name.startswith(_SDK)
