"""An OIDC issuer: keys of its own, tokens signed with them, and a JWKS on a real socket."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from gateway.config import IssuerSettings

ISS, AUDIENCE = "https://login.corp.example", "spillway"
NOW_S = 1_800_000_000.0

RSA = RSAKey.generate_key(2048, {"kid": "rsa-1"})
OTHER_RSA = RSAKey.generate_key(2048, {"kid": "rsa-2"})
EC = ECKey.generate_key("P-256", {"kid": "ec-1"})


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def claims(**changes: Any) -> dict[str, Any]:
    """Those of a token that is in order; a change to None takes one out."""
    usual = {"iss": ISS, "aud": AUDIENCE, "exp": NOW_S + 300, "iat": NOW_S - 5, "tenant": "acme"}
    return {k: v for k, v in {**usual, **changes}.items() if v is not None}


def signed(
    said: Mapping[str, Any] | bytes | None = None,
    key: RSAKey | ECKey = RSA,
    algorithm: str = "RS256",
    **header: Any,
) -> str:
    payload = said if isinstance(said, bytes) else json.dumps(said or claims()).encode()
    head = {"alg": algorithm, "kid": key.kid, **header}
    head = {k: v for k, v in head.items() if v is not None}
    return jws.serialize_compact(head, payload, key, algorithms=[algorithm])


def forged(header: Mapping[str, Any], signature: bytes, said: bytes | None = None) -> str:
    payload = json.dumps(claims()).encode() if said is None else said
    return f"{b64(json.dumps(header).encode())}.{b64(payload)}.{b64(signature)}"


def settings(**changes: Any) -> IssuerSettings:
    usual = {
        "issuer": ISS, "audience": [AUDIENCE], "jwks_url": "https://login.corp.example/keys",
        "algorithms": ["RS256", "ES256"],
    }  # fmt: skip
    return IssuerSettings.model_validate({**usual, **changes})


class Issuer:
    """What its JWKS says can change, and it can stop answering."""

    def __init__(self, *keys: RSAKey | ECKey) -> None:
        self.keys = list(keys or (RSA, EC))
        self.fetches = 0
        self.port = 0
        self.body: bytes | None = None
        self.status = 200
        self.more_headers = ""
        self.hangs = False
        self.secure = False

    @property
    def url(self) -> str:
        scheme = "https" if self.secure else "http"
        return f"{scheme}://127.0.0.1:{self.port}/keys"

    def jwks(self) -> bytes:
        listed = [{**key.as_dict(private=False), "use": "sig"} for key in self.keys]
        return json.dumps({"keys": listed}).encode()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.fetches += 1
            if self.hangs:
                await asyncio.Event().wait()
            body = self.jwks() if self.body is None else self.body
            head = f"HTTP/1.1 {self.status} X\r\ncontent-length: {len(body)}\r\n{self.more_headers}"
            writer.write(f"{head}connection: close\r\n\r\n".encode() + body)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
        self.secure = tls is not None
        server = await asyncio.start_server(self._answer, "127.0.0.1", self.port, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
