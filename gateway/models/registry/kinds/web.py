"""HTTP to a registry, by its own rules: no proxy of the environment, no other host.

A redirect to another host would take the credentials, or the trust, there; it is refused with the
name of that host. Answers are not unpacked: what is compressed can be larger than it says.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import certifi
import httpx

from gateway.config import external_addresses
from gateway.models.registry import (
    NotThere,
    RegistryDenied,
    RegistryError,
    RegistryUnreachable,
    UnfitVersion,
    VersionExists,
)

ATTEMPTS = 4
FIRST_PAUSE_S = 0.25  # and twice as long after each
_MOST_PAUSE_S = 10.0
_MOST_REDIRECTS = 3
_CONNECT_S, _READ_S = 5.0, 30.0  # without a byte
_T = TypeVar("_T")
Sign = Callable[[httpx.Request], None]


@dataclass(frozen=True, slots=True)
class Access:
    """How one registry is reached."""

    ca_file: Path | None = None
    token: str | None = None
    silent_s: float = _READ_S
    pause: Callable[[float], None] = time.sleep


class WebOrigin:
    """One origin. Raises RegistryError alone."""

    def __init__(self, base: str, access: Access, sign: Sign | None = None) -> None:
        self._base = base.rstrip("/")
        self.host = urlsplit(base).netloc
        self._access, self._sign = access, sign
        # guard: R3.plain-http
        _refuse_open_credentials(base, access.token is not None or sign is not None)
        headers = {"accept-encoding": "identity", "user-agent": "spillway"}
        if access.token is not None:
            headers["authorization"] = f"Bearer {access.token}"
        # guard: R3.no-proxy without trust_env=False
        self._client = httpx.Client(
            headers=headers,
            trust_env=False,
            follow_redirects=False,
            verify=_trust(access.ca_file),
            timeout=httpx.Timeout(access.silent_s, connect=_CONNECT_S),
        )

    def close(self) -> None:
        self._client.close()

    def retried(self, work: Callable[[], _T]) -> _T:
        """What may be done again is, while the registry does not answer."""
        return retried(work, self._access.pause)

    def small(self, method: str, path: str, most: int, **more: Any) -> bytes:
        """The body of an answer that has at most so many bytes. Tried again while unreachable,
        but for what makes something anew each time."""

        def once() -> bytes:
            with self.answer(method, path, **more) as response:
                return bounded(response.iter_raw(), most, f"{self.host}{path}")

        return once() if method == "POST" else self.retried(once)

    def json(self, method: str, path: str, most: int = 8 << 20, **more: Any) -> dict[str, Any]:
        raw = self.small(method, path, most, **more)
        try:
            document = httpx.Response(200, content=raw).json()
        except ValueError:
            document = None
        if not isinstance(document, dict):
            page = " but a web page: a login, or a proxy in between" if b"<" in raw[:200] else ""
            raise UnfitVersion(f"{self.host} answered no JSON{page}; check the registry's URL")
        return document

    @contextmanager
    def answer(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | Callable[[], Iterator[bytes]] | None = None,
        json: Any = None,
    ) -> Iterator[httpx.Response]:
        """A response with status 2xx, its body unread."""
        url = self._base + path
        for _ in range(_MOST_REDIRECTS + 1):
            body = content() if callable(content) else content
            request = self._client.build_request(
                method, url, params=params, headers=headers, content=body, json=json
            )
            if self._sign is not None:
                self._sign(request)
            with self._sent(request) as response:
                onward = self._redirected(request, response)
                if onward is None:
                    self._check(response)
                    yield response
                    return
            url, params = onward, None
        raise UnfitVersion(f"{self.host} redirects in a circle; check the registry's URL")

    @contextmanager
    def _sent(self, request: httpx.Request) -> Iterator[httpx.Response]:
        try:
            response = self._client.send(request, stream=True)
        except (httpx.TransportError, OSError) as exc:
            raise _unreachable(self.host, exc) from None
        try:
            yield response
        except (httpx.TransportError, httpx.StreamError) as exc:  # in the middle of the body
            raise _unreachable(self.host, exc) from None
        finally:
            response.close()

    def _redirected(self, request: httpx.Request, response: httpx.Response) -> str | None:
        if response.status_code not in (301, 302, 303, 307, 308):
            return None
        onward: str = urljoin(str(request.url), response.headers.get("location", ""))
        if urlsplit(onward)[:2] != urlsplit(self._base)[:2]:  # guard: R3.redirect-host
            raise UnfitVersion(
                f"{self.host} sends us on to {urlsplit(onward).netloc or 'nowhere'}, which nobody "
                "named here; if that is right, make it the registry's URL"
            )
        if request.method not in ("GET", "HEAD"):
            raise UnfitVersion(f"{self.host} sends us on while we write; check the registry's URL")
        return onward

    def _check(self, response: httpx.Response) -> None:
        status = response.status_code
        if response.headers.get("content-encoding", "identity") != "identity":
            raise UnfitVersion(
                f"{self.host} compresses what was asked for as it is; switch that off"
            )
        if status in (401, 403):
            raise RegistryDenied(
                f"{self.host} answers {status}: check the credentials of the registry"
            )
        if status in (404, 410):
            raise NotThere(f"{self.host} has nothing at {urlsplit(str(response.url)).path}")
        if status in (409, 412):
            raise VersionExists(f"{self.host} has that already ({status})")
        if status == 429 or status >= 500:
            raise RegistryUnreachable(
                f"{self.host} answers {status}: it has trouble; try again later"
            )
        if not 200 <= status < 300:
            raise UnfitVersion(f"{self.host} answers {status}: check the registry's URL")


def retried(work: Callable[[], _T], pause: Callable[[float], None]) -> _T:
    for at in range(ATTEMPTS - 1):
        try:
            return work()
        except RegistryUnreachable:
            pause(min(_MOST_PAUSE_S, FIRST_PAUSE_S * 2**at))
    return work()


def bounded(pieces: Iterator[bytes], most: int, what: str) -> bytes:
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > most:
            raise UnfitVersion(f"{what} is larger than the {most} bytes that it may have")
    return bytes(data)


def _unreachable(host: str, exc: Exception) -> RegistryUnreachable:
    kind = type(exc).__name__
    why = (
        "did not answer in time" if isinstance(exc, httpx.TimeoutException) else f"failed ({kind})"
    )
    return RegistryUnreachable(f"{host} {why}: is it up, and is its URL right? Then try again")


def _refuse_open_credentials(base: str, credentials: bool) -> None:
    parts = urlsplit(base)
    if (
        credentials
        and parts.scheme == "http"
        and not external_addresses.is_loopback(parts.hostname or "")
    ):
        raise RegistryError(
            f"{parts.netloc} is reached over plain HTTP, which would show the credentials to the "
            "network; use https, or no credentials"
        )


def _trust(ca_file: Path | None) -> ssl.SSLContext:
    """Made by hand: `ssl.create_default_context` writes keys to $SSLKEYLOGFILE."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(os.fspath(ca_file or certifi.where()))
    except (OSError, ssl.SSLError):
        raise RegistryError(f"{ca_file} is not a PEM file of certificates (ca_file)") from None
    return context
