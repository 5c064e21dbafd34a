"""ASGI over an exchange: for whatever is no inference call.

What matters to such an application is the scope and the sending. Bodies are read from the exchange
itself, which stands in the scope, and a caller that leaves cancels the task.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message, Scope

from gateway.protocols.http.exchange import HttpExchange

EXCHANGE = "spillway.exchange"
"""A key of the scope."""


async def serve(app: ASGIApp, exchange: HttpExchange) -> None:
    """Answer by `app`, which sends its answer whole."""
    started: dict[str, Any] = {}
    body: list[bytes] = []

    async def receive() -> Message:
        await asyncio.Event().wait()  # a caller that leaves cancels this task
        raise AssertionError

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            started.update(message)
            return
        body.append(message.get("body", b""))
        if not message.get("more_body", False):
            exchange.reply_fields(started["status"], started["headers"], b"".join(body))

    await app(make_scope(exchange), receive, send)


def make_scope(exchange: HttpExchange) -> Scope:
    head = exchange.head
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": head.version,
        "method": head.method,
        "scheme": "http",
        "path": head.route,
        "raw_path": head.raw_path,
        "query_string": head.query,
        "root_path": "",
        "headers": list(head.fields),
        "client": None if exchange.peer is None else (exchange.peer, 0),
        "server": None,
        EXCHANGE: exchange,
    }
