"""What calls of plain JSON have in common."""

from __future__ import annotations

from gateway.core.errors import UnsupportedMedia
from gateway.protocols.http.exchange import HttpExchange

JSON = "application/json"


def check_json(exchange: HttpExchange) -> None:
    """Raises UnsupportedMedia."""
    media = exchange.headers.get("content-type", JSON)
    if media.partition(";")[0].strip().lower() != JSON:
        raise UnsupportedMedia(f"content-type: send the body as {JSON}")
