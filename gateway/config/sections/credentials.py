"""Credentials that end, and are renewed while the gateway runs."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from gateway.config import external_addresses
from gateway.config.section import Contradiction, Section

_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_URL = r"^https?://[!-~]+$"
_REGION = "^([a-z]{2,8}(-[a-z]+)+-[0-9]+)?$"
_ROLE = "^(arn:aws[a-z-]*:iam::[0-9]{12}:role/[!-~]+)?$"
_METADATA = ip_network("fd00:ec2::/32")  # of AWS, where instances and pods have IPv6


def is_confidential(url: str) -> bool:
    """Whether secrets may go there: over TLS (RFC 6749, section 3.2), or within this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or external_addresses.is_loopback(parts.hostname or "")


class AwsSettings(Section):
    """Keys that sign calls to services of AWS: one source of them, and what they may assume."""

    region: str = Field("", pattern=_REGION, description="absent: that of the endpoint's host")
    access_key: SecretStr | None = None
    secret_key: SecretStr | None = None
    session_token: SecretStr | None = None
    file: Path | None = Field(
        None, description="a shared credentials file; read again as it changes"
    )
    profile: str = Field("default", description="of the file")
    web_identity: Path | None = Field(
        None, description="holds an OpenID Connect token, which STS takes for the role"
    )
    metadata_url: Annotated[str, Field(pattern=_URL)] | None = Field(
        None,
        description="an instance's metadata (http://169.254.169.254) or, with a path, a "
        "container's credentials",
    )
    metadata_token: Path | None = Field(None, description="what a container's service asks for")
    role: str = Field("", pattern=_ROLE, description="the ARN of one to assume")
    external_id: str = Field("", description="that the role asks for")
    sts_url: Annotated[str, Field(pattern=_URL)] | None = Field(
        None, description="absent: the region's own"
    )

    @model_validator(mode="after")
    def _is_one(self) -> AwsSettings:
        _only_one(
            access_key=self.access_key, file=self.file, web_identity=self.web_identity,
            metadata_url=self.metadata_url,
        )  # fmt: skip
        if (self.access_key is None) != (self.secret_key is None):
            raise Contradiction((), "access_key and secret_key go together; give both or none")
        if self.session_token is not None and self.access_key is None:
            raise Contradiction(("session_token",), "goes with access_key alone; drop it")
        if self.web_identity is not None and not self.role:
            raise Contradiction(("web_identity",), "needs the role that it stands for")
        if self.external_id and not self.role:
            raise Contradiction(("external_id",), "goes with role alone; drop it")
        if self.metadata_token is not None and self.metadata_url is None:
            raise Contradiction(("metadata_token",), "goes with metadata_url alone; drop it")
        # guard: S15.sts-tls
        if self.sts_url is not None and not is_confidential(self.sts_url):
            raise Contradiction(("sts_url",), "secrets would go there unencrypted; use https")
        # guard: S15.metadata-host
        if self.metadata_url is not None and not _is_local(self.metadata_url):
            raise Contradiction(
                ("metadata_url",), "is neither https nor an address of this machine alone"
            )
        return self


def _is_local(url: str) -> bool:
    """Or reached over TLS: link-local addresses (RFC 3927, RFC 4291) are not routed."""
    if is_confidential(url):
        return True
    try:
        address = ip_address(urlsplit(url).hostname or "")
    except ValueError:
        return False
    return address.is_link_local or address in _METADATA


def _only_one(**sources: object) -> None:
    """Raises Contradiction unless one of them is stated, and no other."""
    if sum(value is not None for value in sources.values()) != 1:
        raise Contradiction((), f"needs exactly one of {', '.join(sources)}")


class CredentialSettings(Section):
    """In the place of an endpoint's `api_key`: one of four."""

    file: Path | None = Field(None, description="holds the key or token; read again as it changes")
    token_url: Annotated[str, Field(pattern=_URL)] | None = Field(
        None, description="an OAuth 2.0 token endpoint, called with client_id and client_secret"
    )
    client_id: str = ""
    client_secret: SecretStr | None = None
    service_account: Path | None = Field(
        None, description="Google's JSON key file of a service account"
    )
    aws: AwsSettings | None = Field(None, description="keys that sign each call (SigV4)")
    scope: str = Field("", description=f"of the tokens; of Google's {_GOOGLE_SCOPE} when absent")

    @model_validator(mode="after")
    def _is_one(self) -> CredentialSettings:
        _only_one(
            file=self.file, token_url=self.token_url, service_account=self.service_account,
            aws=self.aws,
        )  # fmt: skip
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
