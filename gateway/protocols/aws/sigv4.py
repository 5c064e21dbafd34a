"""AWS Signature Version 4, as the headers of a request.

After "Create a signed AWS API request" of the IAM user guide; for an object store after
"Authenticating Requests: Using the Authorization Header" of the S3 API reference. Written here
because the libraries that have it bring a whole SDK, and a second HTTP client, along.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote

from gateway.core import ambient

EMPTY = hashlib.sha256(b"").hexdigest()
_ALGORITHM = "AWS4-HMAC-SHA256"
_NOT_SIGNED = frozenset(
    {"authorization", "user-agent", "accept", "connection", "transfer-encoding"}
)
_VISIBLE = re.compile("[!-~]{1,16384}")
_DATE, _TOKEN = "x-amz-date", "x-amz-security-token"


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """Those of a user, or with a session token those of a role for a while."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)
    life_s: float | None = field(default=None, compare=False)  # None: until others replace them

    @property
    def secrets(self) -> dict[str, str]:
        """What is repeated to nobody."""
        return {
            "access key": self.access_key,
            "secret key": self.secret_key,
            "session token": self.session_token,
        }


@dataclass(frozen=True, slots=True)
class CanonicalRequest:
    """All of a request that is signed, but for its date and its body."""

    before: str = field(repr=False)  # the date's value
    after: str = field(repr=False)
    signed: str  # names of headers


@dataclass(slots=True)
class Signer:
    """Signs with one pair of keys, for a service in a region."""

    keys: AwsKeys
    region: str
    service: str
    now_s: Callable[[], float] = field(default=ambient.wall_s, compare=False, repr=False)
    _heads: dict[bytes, CanonicalRequest] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    _day_key: tuple[str, bytes] = field(default=("", b""), init=False, compare=False, repr=False)

    @property
    def life_s(self) -> float | None:
        return self.keys.life_s

    @property
    def usable(self) -> bool:
        """Whether its keys can stand in headers."""
        keys = self.keys
        token = keys.session_token or keys.access_key
        return all(map(_VISIBLE.fullmatch, (keys.access_key, keys.secret_key, token)))

    def canonical(
        self,
        method: str,
        path: str,
        query: Iterable[tuple[str, str]],
        headers: Mapping[str, str],
    ) -> CanonicalRequest:
        """`path` in its canonical form; `query` percent-encoded as it is sent; `headers` by their
        names in lower case, `host` among them."""
        named = {name: value for name, value in headers.items() if name not in _NOT_SIGNED}
        named[_DATE] = ""
        if self.keys.session_token:
            named[_TOKEN] = self.keys.session_token
        names = sorted(named)
        date = names.index(_DATE)
        lines = [f"{name}:{' '.join(named[name].split())}\n" for name in names]
        signed = ";".join(names)
        pairs = [f"{key}={value}" for key, value in sorted(query)]
        first = f"{method}\n{path}\n{'&'.join(pairs)}\n"
        return CanonicalRequest(
            f"{first}{''.join(lines[:date])}{_DATE}:",
            f"\n{''.join(lines[date + 1 :])}\n{signed}\n",
            signed,
        )

    def head_signature(self, start: bytes, body: bytes) -> dict[str, str]:
        """`headers` for a request whose head begins so, with its line and lines of headers as they
        are sent; what follows them is not signed. Heads begin alike call by call."""
        canonical = self._heads.get(start)
        if canonical is None:
            canonical = self._heads[start] = self._canonical_head(start)
        return self.headers(canonical, hashlib.sha256(body).hexdigest())

    def _canonical_head(self, start: bytes) -> CanonicalRequest:
        line, *fields = start.decode("latin-1").split("\r\n")
        method, target, _ = line.split(" ")
        path, _, query = target.partition("?")
        pairs = [each.partition("=")[::2] for each in query.split("&") if each]
        headers = dict([each.split(": ", 1) for each in fields if each])
        return self.canonical(method, quote(path, safe="/-_.~"), pairs, headers)

    def headers(self, request: CanonicalRequest, body_sha256: str) -> dict[str, str]:
        """Those that prove at this moment who asks. `body_sha256`: in hexadecimal digits."""
        moment = datetime.fromtimestamp(self.now_s(), UTC).strftime("%Y%m%dT%H%M%SZ")
        canonical = f"{request.before}{moment}{request.after}{body_sha256}".encode("latin-1")
        scope = f"{moment[:8]}/{self.region}/{self.service}/aws4_request"
        text = f"{_ALGORITHM}\n{moment}\n{scope}\n{hashlib.sha256(canonical).hexdigest()}"
        signature = hmac.digest(self._signing_key(moment[:8]), text.encode(), "sha256").hex()
        made = {
            _DATE: moment,
            "authorization": f"{_ALGORITHM} Credential={self.keys.access_key}/{scope}, "
            f"SignedHeaders={request.signed}, Signature={signature}",
        }
        if self.keys.session_token:
            made[_TOKEN] = self.keys.session_token
        return made

    def _signing_key(self, day: str) -> bytes:
        known_day, key = self._day_key
        if day != known_day:
            key = f"AWS4{self.keys.secret_key}".encode()
            for part in (day, self.region, self.service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._day_key = day, key
        return key
