"""One request to who issues credentials."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import httpx

from gateway.endpoints.credentials.renewal import NotIssued

_LONGEST = 64 * 1024


async def exchange(
    tls: Callable[[], ssl.SSLContext],
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:
    """The status and the body, which is empty where it is large. Nothing out of the environment
    counts, and no redirect is followed. Raises NotIssued with the host alone: the rest of an
    address may hold a secret."""
    data = None if form is None else dict(form)
    try:
        async with (
            httpx.AsyncClient(verify=tls(), trust_env=False) as client,
            client.stream(method, url, headers=headers, data=data) as answer,
        ):
            body = b""
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > _LONGEST:
                    return answer.status_code, b""
            return answer.status_code, body
    except (httpx.HTTPError, ssl.SSLError) as exc:
        raise NotIssued(f"{urlsplit(url).hostname}: {type(exc).__name__}") from None
