"""Hooks: services of the operator's, on the premises, that are asked about each call.

Their answers can only tighten: a hook restricts a call or refuses it, and clears none. Start with
`classifier.HookedClassifier`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

PREFIX: Final = "hook:"
"""Of the reason of a verdict, before the hook's name."""


class HookAnswer(Enum):
    ALLOW = "allow"
    RESTRICT = "restrict"
    REFUSE = "refuse"


class NoAnswer(Exception):
    """None came in time, or one that says none of the three."""
