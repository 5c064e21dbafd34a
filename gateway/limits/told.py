"""What a caller is told of its limits: `RateLimit-Policy` and `RateLimit`, as revision 10 of
draft-ietf-httpapi-ratelimit-headers has them. Over gRPC they are trailing metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

POLICY, LEFT = "ratelimit-policy", "ratelimit"


@dataclass(frozen=True, slots=True)
class Line:
    """One limit: its name, how much of which unit in how long, and what is left of it until when.
    A limit without a window is one of what goes on at once."""

    name: str
    most: float
    left: float
    unit: str = ""  # requests, unless said
    window_s: int | None = None
    whole_in_s: float | None = None


def headers(lines: Iterable[Line]) -> Mapping[str, str]:
    policy, left = [], []
    for line in lines:
        unit = f';qu="{line.unit}"' if line.unit else ""
        window = "" if line.window_s is None else f";w={line.window_s}"
        policy.append(f'"{line.name}";q={int(line.most)}{unit}{window}')
        whole = "" if line.whole_in_s is None else f";t={-int(-line.whole_in_s // 1)}"
        left.append(f'"{line.name}";r={max(0, int(line.left))}{whole}')
    return {POLICY: ", ".join(policy), LEFT: ", ".join(left)} if policy else {}
