"""What the answers of a provider say is left of its limits, such as requests and tokens a minute.

Limits refill all the time (a token bucket): `reset` is when the whole limit is there again, so that
for one request more there is far less to wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from gateway.config.providers.limits import LimitHeaders
from gateway.core import ambient

_UNSAID_S = 1.0  # where nothing says when there is more
_LONGEST_S = 86_400.0
_SHARE = 0.1  # of a call in the usual number of tokens
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")


class QuotaReader:
    """Of one endpoint."""

    def __init__(self, headers: Sequence[LimitHeaders]) -> None:
        self._headers = headers
        self._names = tuple(each.remaining.lower().encode() for each in headers)
        self._usual_tokens = 0.0
        self.exhausted: Callable[[float], None] | None = None
        """Called with the seconds for which the next call would be refused."""

    def read(self, headers: Mapping[bytes, bytes], total_tokens: int | None = None) -> None:
        """`headers` in lower case, of an answer that took so many tokens."""
        if self.exhausted is None:
            return
        if total_tokens:
            self._usual_tokens += _SHARE * (total_tokens - self._usual_tokens)
        wait_s = 0.0
        for described, name in zip(self._headers, self._names, strict=True):
            if (raw := headers.get(name)) is not None:
                wait_s = max(wait_s, self._wait_s(described, raw, headers))
        if wait_s > 0.0:
            self.exhausted(wait_s)

    def _wait_s(self, described: LimitHeaders, raw: bytes, headers: Mapping[bytes, bytes]) -> float:
        remaining = _number(raw)
        needed = max(1.0, self._usual_tokens) if described.counts == "tokens" else 1.0
        if remaining is None or remaining >= needed:
            return 0.0
        full_s = reset_s(headers.get(described.reset.lower().encode(), b"").decode("latin-1"))
        if full_s is None:
            return _UNSAID_S
        limit = _number(headers.get(described.limit.lower().encode(), b""))
        if limit is None or limit <= remaining:
            return full_s
        return min(full_s, full_s * (needed - remaining) / (limit - remaining))


def reset_s(text: str) -> float | None:
    """Seconds, as a number, a duration (`6m0s`, `20ms`) or the time of day (RFC 3339)."""
    if not text:
        return None
    if (seconds := _number(text.encode())) is not None:
        return seconds
    if (match := _DURATION.fullmatch(text)) is not None:
        hours, minutes, seconds, millis = (float(part or 0) for part in match.groups())
        return min(hours * 3600 + minutes * 60 + seconds + millis / 1000, _LONGEST_S)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return min(max(0.0, at.timestamp() - ambient.wall_s()), _LONGEST_S)


def _number(raw: bytes) -> float | None:
    try:
        number = float(raw)
    except ValueError:
        return None
    return number if 0.0 <= number < float("inf") else None
