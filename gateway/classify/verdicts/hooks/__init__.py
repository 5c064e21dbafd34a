"""Hooks: services of the operator's, on the premises, that judge each call.

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
    """No answer in time, or one with none of the three verdicts."""
