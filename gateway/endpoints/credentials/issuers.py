"""Where credentials come from: a file, OAuth 2.0's client credentials, a service account of Google,
AWS."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from gateway.config import ConfigError, EndpointSettings
from gateway.config.sections.credentials import is_confidential
from gateway.core import ambient
from gateway.endpoints.credentials import AccessToken
from gateway.endpoints.credentials.aws import aws_signer
from gateway.endpoints.credentials.exchange import exchange
from gateway.endpoints.credentials.renewal import NotIssued, RenewedCredential
from gateway.protocols.aws.sigv4 import Signer
from gateway.protocols.tls import TlsFiles, client_context

_ERROR = re.compile("[a-z_]{1,64}")
_USUAL_LIFE_S = 300.0  # of a token whose answer says no life
_ASSERTED_S = 3600
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def renewed(settings: EndpointSettings) -> RenewedCredential:
    """Of an endpoint whose settings have a credential that ends. Raises ConfigError where its file
    cannot be used."""
    stated = settings.credential
    assert stated is not None
    tls = partial(client_context, TlsFiles("endpoints", ca_file=settings.ca_file))
    fetch: Callable[[], Awaitable[AccessToken | Signer]]
    if stated.aws is not None:
        fetch = aws_signer(settings, stated.aws, tls)
        _check(fetch.read)
    elif stated.file is not None:
        fetch = TokenFile(stated.file)
        _check(fetch.read)
    elif stated.service_account is not None:
        fetch = ServiceAccount(stated.service_account, stated.google_scope, tls)
        _check(fetch.assertion)
    else:
        secret = "" if stated.client_secret is None else stated.client_secret.get_secret_value()
        url = stated.token_url or ""
        fetch = ClientCredentials(url, stated.client_id, secret, stated.scope, tls)
    return RenewedCredential(settings.url or "", fetch, bearer=stated.file is None)


def _check(use: Callable[[], object]) -> None:
    try:
        use()
    except (NotIssued, OSError) as exc:
        why = f"{exc.filename}: {exc.strerror}" if isinstance(exc, OSError) else str(exc)
        raise ConfigError(f"endpoints: credential: {why}") from None


class TokenFile:
    """Its whole text without space around it is the token, for as long as it stands there."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def __call__(self) -> AccessToken:
        return await asyncio.to_thread(self.read)

    def read(self) -> AccessToken:
        if not (text := self._path.read_text("utf-8", "replace").strip()):
            raise NotIssued(f"{self._path} is empty")
        return AccessToken(text)


class ClientCredentials:
    """RFC 6749, section 4.4, with the client's secret in the body as section 2.3.1 allows."""

    def __init__(
        self, url: str, client_id: str, secret: str, scope: str, tls: Callable[[], ssl.SSLContext]
    ) -> None:
        form = {"grant_type": "client_credentials", "client_id": client_id}
        form |= {"client_secret": secret, **({"scope": scope} if scope else {})}
        self._endpoint = TokenEndpoint(url, tls)
        self._form = form

    async def __call__(self) -> AccessToken:
        return await self._endpoint.token(self._form)


class ServiceAccount:
    """RFC 7523, section 2.1, as Google asks for it: an assertion of an hour, signed by RS256."""

    def __init__(self, path: Path, scope: str, tls: Callable[[], ssl.SSLContext]) -> None:
        self._path, self._scope, self._tls = path, scope, tls

    async def __call__(self) -> AccessToken:
        url, assertion = await asyncio.to_thread(self.assertion)
        form = {"grant_type": _JWT_BEARER, "assertion": assertion}
        return await TokenEndpoint(url, self._tls).token(form)

    def assertion(self) -> tuple[str, str]:
        """Where it is to be shown, and itself. Raises NotIssued, OSError."""
        try:
            document = orjson.loads(self._path.read_bytes())
            url, email = document["token_uri"], document["client_email"]
            key = RSAKey.import_key(document["private_key"])
            header = {"alg": "RS256", "typ": "JWT", "kid": document["private_key_id"]}
            if not is_confidential(url):
                raise NotIssued(f"{self._path}: its token_uri is neither https nor this machine's")
            now_s = int(ambient.wall_s())
            claims = {
                "iss": email, "scope": self._scope, "aud": url, "iat": now_s,
                "exp": now_s + _ASSERTED_S,
            }  # fmt: skip
            return url, jwt.encode(header, claims, key)
        except (KeyError, TypeError, ValueError, JoseError):
            raise NotIssued(f"{self._path} is no key file of a service account") from None


class TokenEndpoint:
    """One that issues access tokens (RFC 6749, section 5)."""

    def __init__(self, url: str, tls: Callable[[], ssl.SSLContext]) -> None:
        self._url = url
        self._host = urlsplit(url).hostname  # for messages: the rest may hold a secret
        self._tls = tls

    async def token(self, form: Mapping[str, str]) -> AccessToken:
        """Raises NotIssued."""
        status, body = await exchange(self._tls, "POST", self._url, form=form)
        fields = _fields(body)
        token = fields.get("access_token")
        if status != 200 or not isinstance(token, str):
            raise NotIssued(f"{self._host} answered {status}{_error(fields)}")
        kind = fields.get("token_type", "bearer")
        if not isinstance(kind, str) or kind.lower() != "bearer":
            raise NotIssued(f"{self._host} issued a token that is no bearer token")
        return AccessToken(token, _life_s(fields.get("expires_in")))


def _fields(body: bytes) -> Mapping[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    return document if isinstance(document, dict) else {}


def _error(fields: Mapping[str, Any]) -> str:
    """The error's code alone: descriptions may repeat what was sent."""
    error = fields.get("error")
    return f": {error}" if isinstance(error, str) and _ERROR.fullmatch(error) else ""


def _life_s(stated: Any) -> float:
    """Microsoft once wrote it as a string."""
    try:
        life_s = float(stated)
    except (TypeError, ValueError):
        return _USUAL_LIFE_S
    return life_s if 0 < life_s < float("inf") else _USUAL_LIFE_S
