"""What a word can be: outside, or begin or continue one of four kinds of mention."""

from __future__ import annotations

KINDS = ("PERSON", "STREET_ADDRESS", "LOCATION", "ORGANIZATION")
LABELS = ("O", *(f"{head}-{kind}" for kind in KINDS for head in "BI"))
BEGIN = {kind: 1 + 2 * at for at, kind in enumerate(KINDS)}
INSIDE = {kind: 2 + 2 * at for at, kind in enumerate(KINDS)}
