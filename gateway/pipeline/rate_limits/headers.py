"""What a caller is told of its limits: `RateLimit-Policy` and `RateLimit`, as revision 10 of
draft-ietf-httpapi-ratelimit-headers has them. Over gRPC they are trailing metadata."""

from __future__ import annotations

POLICY, LEFT = "ratelimit-policy", "ratelimit"


def policy(name: str, most: float, unit: str = "", window_s: int | None = None) -> str:
    """One limit: how much of which unit (requests, unless said) in how long; without a window, at
    once."""
    unit_part = f';qu="{unit}"' if unit else ""
    within = "" if window_s is None else f";w={window_s}"
    return f'"{name}";q={int(most)}{unit_part}{within}'


def left(name: str, amount: float, whole_in_s: float | None = None) -> str:
    """What there is of it, and in how many seconds it is whole again."""
    whole = "" if whole_in_s is None else f";t={-int(-whole_in_s // 1)}"
    return f'"{name}";r={max(0, int(amount))}{whole}'
