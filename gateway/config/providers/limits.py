"""The headers in which a provider says what is left of its limits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway.config.section import Section

_Header = Annotated[str, Field(pattern="^[A-Za-z0-9-]{0,64}$")]


class LimitHeaders(Section):
    """Of one limit."""

    counts: Literal["requests", "tokens"]
    remaining: Annotated[str, Field(pattern="^[A-Za-z0-9-]{1,64}$")]
    limit: _Header = Field("", description="the whole of it; without it `reset` is waited for")
    reset: _Header = Field(
        "", description="when the whole is there again: seconds, a duration, or RFC 3339"
    )


OPENAI_LIMITS: tuple[LimitHeaders, ...] = tuple(
    LimitHeaders(
        counts=kind,
        remaining=f"x-ratelimit-remaining-{kind}",
        limit=f"x-ratelimit-limit-{kind}",
        reset=f"x-ratelimit-reset-{kind}",
    )
    for kind in ("requests", "tokens")
)
"""https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers; also Azure's, which
says no reset, and those of most others."""
