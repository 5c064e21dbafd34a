"""Tokens that endpoints are shown with each call, and that are renewed in time.

Health probes start the renewal, which runs in a task of its own: no call waits for a token. An
endpoint without a valid one is down. A credential belongs to one endpoint and goes nowhere else.
"""

from __future__ import annotations

from typing import Protocol

from gateway.core.errors import UpstreamFailed


class Credential(Protocol):
    @property
    def bearer(self) -> bool:
        """It goes as a bearer token (RFC 6750), whatever header the endpoint has for keys."""
        ...

    @property
    def version(self) -> int:
        """Another one for each new token."""
        ...

    def token(self) -> str:
        """The valid one. Raises NoCredential."""
        ...

    def renew(self) -> bool:
        """Begin to renew it where that is due. Whether there is a valid one."""
        ...

    def distrust(self) -> None:
        """The endpoint did not accept it."""
        ...

    async def aclose(self) -> None: ...


class NoCredential(UpstreamFailed):
    """There is no valid token at this moment; nothing was sent."""

    reason = "upstream_credentials"
    unserved = True
