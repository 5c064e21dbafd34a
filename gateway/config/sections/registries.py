"""Where versions of models are pulled from and pushed to."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr, model_validator

from gateway.config.section import Contradiction, Count, Positive, Section


class RegistrySettings(Section):
    """One place with versions of models, for `spillway models`."""

    url: str = Field(
        min_length=1,
        description="a path, or https://host/path, s3://host/bucket/prefix, mlflow://host",
    )
    api_key: SecretStr | None = Field(None, description="a bearer token")
    access_key: SecretStr | None = Field(None, description="of an object store")
    secret_key: SecretStr | None = Field(None, description="of an object store")
    region: str = "us-east-1"
    ca_file: Path | None = None
    public_key: Path | None = Field(
        None, description="Ed25519, PEM: versions that it did not sign are refused"
    )
    max_bytes: Count = Field(64 << 30, description="a version that is larger is refused")
    silent_s: Positive = Field(30.0, description="without a byte for so long it is not there")

    @model_validator(mode="after")
    def _keys_are_a_pair(self) -> RegistrySettings:
        if (self.access_key is None) != (self.secret_key is None):
            raise Contradiction((), "access_key and secret_key go together; give both or none")
        if self.access_key is not None and not self.url.startswith("s3"):
            raise Contradiction(("access_key",), "is of an object store, and the url is of none")
        return self
