"""What a failure says to callers of other APIs than OpenAI's."""

from __future__ import annotations

import orjson

from gateway.core.errors import GatewayError, UpstreamRefused


def words(error: GatewayError) -> str:
    """An endpoint's own words go to the caller: its connector has put them into OpenAI's shape."""
    if not isinstance(error, UpstreamRefused) or not error.body:
        return error.message
    try:
        document = orjson.loads(error.body)
    except orjson.JSONDecodeError:
        return error.message
    stated = document.get("error") if isinstance(document, dict) else None
    own = stated.get("message") if isinstance(stated, dict) else None
    return own if isinstance(own, str) and own else error.message
