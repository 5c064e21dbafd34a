"""Tokens that calls to endpoints carry, or keys that sign them, renewed in time.

Health probes start the renewal, which runs in a task of its own: no call waits for one. An endpoint
without a valid one is down. A credential belongs to one endpoint and goes nowhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Protocol

from gateway.core.errors import UpstreamFailed
from gateway.protocols.aws.sigv4 import Signer

_TOKEN = re.compile("[!-~]{1,16384}")  # RFC 6750 has less; what goes into a header is visible ASCII


@dataclass(frozen=True, slots=True)
class AccessToken:
    text: str = field(repr=False)
    # from the request on; None: until another one replaces it
    life_s: float | None = field(default=None, compare=False)

    @property
    def usable(self) -> bool:
        return _TOKEN.fullmatch(self.text) is not None


class Credential(Protocol):
    @property
    def bearer(self) -> bool:
        """A token goes as a bearer token (RFC 6750), whatever header the endpoint has for keys."""
        ...

    @property
    def version(self) -> int:
        """Another one for each new token or signer."""
        ...

    def issued(self) -> AccessToken | Signer:
        """The valid one: a token that each call carries, or a signer of each call. Raises
        NoCredential."""
        ...

    def renew(self) -> bool:
        """Begin to renew it where that is due. Whether there is a valid one."""
        ...

    def distrust(self) -> None:
        """The endpoint did not accept it."""
        ...

    async def aclose(self) -> None: ...


class NoCredential(UpstreamFailed):
    """There is no valid one at this moment; nothing was sent."""

    reason = "upstream_credentials"
    unserved = True
