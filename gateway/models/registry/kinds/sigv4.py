"""AWS Signature Version 4, for requests to an object store.

After "Authenticating Requests: Using the Authorization Header" of the S3 API reference. Written
here because the libraries that have it bring a whole SDK, and a second HTTP client, along.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

import httpx

from gateway.core import ambient

CONTENT = "x-amz-content-sha256"
EMPTY = hashlib.sha256(b"").hexdigest()
_ALGORITHM = "AWS4-HMAC-SHA256"
_NOT_SIGNED = frozenset(
    {"authorization", "user-agent", "accept", "connection", "transfer-encoding"}
)


@dataclass(frozen=True, slots=True)
class Keys:
    access_key: str
    secret_key: str
    region: str = "us-east-1"
    service: str = "s3"


@dataclass(frozen=True, slots=True)
class Signer:
    keys: Keys
    now_s: Callable[[], float] = ambient.wall_s

    def __call__(self, request: httpx.Request) -> None:
        """Adds the headers that prove who asks; the body's hash is in `CONTENT` already, or it is
        empty."""
        moment = datetime.fromtimestamp(self.now_s(), UTC).strftime("%Y%m%dT%H%M%SZ")
        request.headers["x-amz-date"] = moment
        request.headers.setdefault(CONTENT, EMPTY)
        scope = "/".join((moment[:8], self.keys.region, self.keys.service, "aws4_request"))
        signed, canonical = _canonical(request)
        text = "\n".join((_ALGORITHM, moment, scope, hashlib.sha256(canonical).hexdigest()))
        signature = hmac.digest(self._key(moment[:8]), text.encode(), "sha256").hex()
        request.headers["authorization"] = (
            f"{_ALGORITHM} Credential={self.keys.access_key}/{scope}, "
            f"SignedHeaders={signed}, Signature={signature}"
        )

    def _key(self, day: str) -> bytes:
        key = f"AWS4{self.keys.secret_key}".encode()
        for part in (day, self.keys.region, self.keys.service, "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        return key


def _canonical(request: httpx.Request) -> tuple[str, bytes]:
    headers = {
        name: " ".join(value.split())
        for name, value in sorted(request.headers.items())
        if name not in _NOT_SIGNED
    }
    signed = ";".join(headers)
    pairs = sorted(
        (quote(key, safe="-_.~"), quote(value, safe="-_.~"))
        for key, value in request.url.params.multi_items()
    )
    lines = (
        request.method,
        quote(request.url.path, safe="/-_.~"),
        "&".join(f"{key}={value}" for key, value in pairs),
        *(f"{name}:{value}" for name, value in headers.items()),
        "",
        signed,
        request.headers[CONTENT],
    )
    return signed, "\n".join(lines).encode()
