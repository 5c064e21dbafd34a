"""Credentials that end, and are renewed while the gateway runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from gateway.config import external_addresses
from gateway.config.section import Contradiction, Section

_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_URL = r"^https?://[!-~]+$"


def is_confidential(url: str) -> bool:
    """Whether secrets may go there: over TLS (RFC 6749, section 3.2), or within this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or external_addresses.is_loopback(parts.hostname or "")


class CredentialSettings(Section):
    """In the place of an endpoint's `api_key`: one of three."""

    file: Path | None = Field(None, description="holds the key or token; read again as it changes")
    token_url: Annotated[str, Field(pattern=_URL)] | None = Field(
        None, description="an OAuth 2.0 token endpoint, called with client_id and client_secret"
    )
    client_id: str = ""
    client_secret: SecretStr | None = None
    service_account: Path | None = Field(
        None, description="Google's JSON key file of a service account"
    )
    scope: str = Field("", description=f"of the tokens; of Google's {_GOOGLE_SCOPE} when absent")

    @model_validator(mode="after")
    def _is_one(self) -> CredentialSettings:
        ways = {
            "file": self.file, "token_url": self.token_url, "service_account": self.service_account,
        }  # fmt: skip
        stated = [name for name, value in ways.items() if value is not None]
        if len(stated) != 1:
            raise Contradiction((), f"needs exactly one of {', '.join(ways)}")
        if self.token_url is None:
            if self.client_id or self.client_secret is not None:
                key = "client_id" if self.client_id else "client_secret"
                raise Contradiction((key,), "goes with token_url alone; drop it")
        elif not self.client_id or self.client_secret is None:
            raise Contradiction(("token_url",), "needs client_id and client_secret")
        if self.token_url is not None and not is_confidential(self.token_url):
            raise Contradiction(
                ("token_url",), "client_secret would go there unencrypted; use https"
            )
        if self.file is not None and self.scope:
            raise Contradiction(("scope",), "a file's token has its own; drop it")
        return self

    @property
    def google_scope(self) -> str:
        return self.scope or _GOOGLE_SCOPE
