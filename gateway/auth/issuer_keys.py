"""The public keys of an issuer, fetched beside the calls and never on their time.

A set of keys counts for `stale_s` after it was fetched; then tokens of the issuer are refused until
it answers again. A token with a key that nobody knows asks for another fetch, at most one in
`refetch_s`, and is told to come back.
"""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
from dataclasses import dataclass

import httpx

from gateway.auth.jws import KeySet, Token
from gateway.auth.refusal import NotAccepted
from gateway.config import IssuerSettings
from gateway.core.deadline import Clock
from gateway.core.errors import MalformedBody
from gateway.protocols import strictjson

log = logging.getLogger(__name__)

FETCH_S = 5.0
MOST_BYTES = 256 * 1024


class FetchFailed(Exception):
    """The message has no more than a reason."""


@dataclass(frozen=True, slots=True)
class Fetched:
    keys: KeySet
    at_s: float


_NONE_YET = Fetched(KeySet(()), -math.inf)


class IssuerKeys:
    def __init__(self, name: str, settings: IssuerSettings, clock: Clock) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        self._fetched = _NONE_YET
        self._tried_s = -math.inf
        self._wanted = asyncio.Event()
        self._failing = False
        self._fetch_s = FETCH_S
        self.fetched = asyncio.Event()  # since the first time that they were fetched

    def follow(self, before: IssuerKeys) -> None:
        """The keys that were fetched for the same settings."""
        if before._settings == self._settings and before.fetched.is_set():
            self._fetched = before._fetched
            self.fetched.set()

    @property
    def current(self) -> Fetched:
        """Raises NotAccepted when they are too old to go by."""
        # guard: B6.stale-issuer-keys
        if self._clock() - self._fetched.at_s > self._settings.stale_s:
            self._want()
            raise NotAccepted("unverifiable")
        return self._fetched

    def verify(self, token: Token) -> Fetched:
        """The keys that the token was verified with. Raises NotAccepted."""
        known = self.current
        if token.key_id is not None and not known.keys.has(token.key_id) and self._want():
            raise NotAccepted("unverifiable")  # its key may be among those that are fetched now
        known.keys.verify(token, self._settings.algorithms)
        return known

    async def run(self) -> None:
        """Fetches in time, and when a call wants it."""
        while True:
            try:
                await self.fetch()
            except Exception:
                log.exception("issuer %s: fetching its keys met a bug", self._name)
            self._wanted.clear()
            try:
                async with asyncio.timeout(self._settings.refresh_s):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def fetch(self) -> None:
        self._tried_s = began_s = self._clock()
        try:
            keys = await self._get()
        except FetchFailed as exc:
            if not self._failing:
                log.error("issuer %s: its keys cannot be fetched: %s", self._name, exc)
            self._failing = True
            return
        if self._failing:
            log.info("issuer %s: its keys are here again", self._name)
        self._failing = False
        self._fetched = Fetched(keys, began_s)
        self.fetched.set()

    def _want(self) -> bool:
        """Whether a fetch is under way now, or will be at once."""
        if self._wanted.is_set():
            return True
        if self._clock() - self._tried_s < self._settings.refetch_s:  # guard: B6.refetch-limit
            return False
        self._wanted.set()
        return True

    async def _get(self) -> KeySet:
        try:
            async with asyncio.timeout(self._fetch_s):
                body = await self._body()
            keys = KeySet.from_document(strictjson.load_object(body))
        except TimeoutError:
            raise FetchFailed(f"no answer within {self._fetch_s:g} s") from None
        except (httpx.HTTPError, OSError, ssl.SSLError) as exc:
            raise FetchFailed(type(exc).__name__) from None
        except MalformedBody as exc:
            raise FetchFailed(exc.message) from None
        if not keys:
            raise FetchFailed("there is no key in it that a signature could be verified with")
        return keys

    async def _body(self) -> bytes:
        """Nothing out of the environment, no redirects; a new connection each time, so that a
        changed CA file counts."""
        settings = self._settings
        # guard: B6.no-proxy without trust_env=False
        async with (
            httpx.AsyncClient(
                trust_env=False, verify=_trusting(settings), timeout=FETCH_S
            ) as client,
            client.stream("GET", settings.jwks_url) as answer,
        ):
            if answer.status_code != 200:
                raise FetchFailed(f"it answers {answer.status_code}")
            chunks: list[bytes] = []
            size = 0
            async for chunk in answer.aiter_bytes():
                size += len(chunk)
                if size > MOST_BYTES:  # guard: B6.key-set-size
                    raise FetchFailed(f"it is over {MOST_BYTES} bytes")
                chunks.append(chunk)
            return b"".join(chunks)


def _trusting(settings: IssuerSettings) -> ssl.SSLContext:
    """By hand: `ssl.create_default_context` writes keys to $SSLKEYLOGFILE."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.ca_file is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(str(settings.ca_file))
    return context
