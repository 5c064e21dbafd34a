"""The audit: where its records go, and what happens when they cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gateway.config.section import Contradiction, Count, Positive, Section

Origin = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]{0,199}$")]


class AuditSettings(Section):
    """Where the records of all calls go, and for how long they stay."""

    directory: Path = Path("var/audit")
    origin: Origin | None = Field(
        None, description="names this gateway in its checkpoints; absent: spillway/ and the host"
    )
    signing_key: Path | None = Field(
        None, description="file of the key that signs checkpoints; absent: in the directory"
    )
    checkpoint_s: Positive = 60.0
    segment_max_bytes: Annotated[int, Field(ge=4096)] = 64 * 1024 * 1024
    retain_days: Positive | None = Field(None, description="absent: nothing is ever removed")
    before_dispatch: Literal["cloud", "none"] = Field(
        "cloud", description="cloud: what leaves is on record, durable, before it is sent"
    )
    on_failure: Literal["block", "spool"] = "block"
    spool_directory: Path | None = Field(
        None, description="where on_failure: spool keeps records; absent: in memory"
    )
    spool_max_bytes: Count = 16 * 1024 * 1024

    @model_validator(mode="after")
    def _spools(self) -> AuditSettings:
        if self.spool_directory is not None:
            if self.on_failure != "spool":
                raise Contradiction(
                    ("spool_directory",), "is used only with audit.on_failure: spool"
                )
            if self.spool_directory == self.directory:
                raise Contradiction(
                    ("spool_directory",), "is the audit's own directory; take one on another disk"
                )
        return self
