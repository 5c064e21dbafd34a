"""What the recognizers of a scanner look for, as the scanner tells the gate: see recognized.py."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ExpressionNeed:
    """One expression that a recognizer needs a match of. `words`: and one of these before it.
    `sign`: stands wherever the expression matches, and costs less to look for. `confirmed`: the
    expression that Python asks after Hyperscan (confirmation.py), where one does."""

    recognizer: str
    expression: str
    flags: int
    words: tuple[str, ...] = ()
    sign: str = ""
    confirmed: str = ""


@dataclass(frozen=True, slots=True)
class Needs:
    """Of all recognizers whose findings restrict. `unknown` are those that nothing is known of."""

    needs: tuple[ExpressionNeed, ...] = ()
    unknown: tuple[str, ...] = ()

    def packed(self) -> dict[str, Any]:
        """For the way from the scanner's process."""
        return {"needs": [astuple(need) for need in self.needs], "unknown": self.unknown}

    @classmethod
    def unpack(cls, packed: Any) -> Needs:
        """Whatever does not read as such is unknown."""
        try:
            needs = tuple(
                ExpressionNeed(str(r), str(e), int(f), tuple(w), str(s), str(c))
                for r, e, f, w, s, c in packed["needs"]
            )
            return cls(needs, tuple(packed["unknown"]))
        except (KeyError, TypeError, ValueError):
            return UNKNOWN


UNKNOWN = Needs(unknown=("scanner",))
