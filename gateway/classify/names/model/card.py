"""What the weights of the names models say of themselves; to be read without loading them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WEIGHTS = Path(__file__).parent.with_name("weights")


def card(weights: Path = WEIGHTS) -> dict[str, Any]:
    """What the weights say of themselves: version, languages, thresholds."""
    document: dict[str, Any] = json.loads((weights / "card.json").read_text("utf-8"))
    return document
