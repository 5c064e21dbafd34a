"""Names in a text as it stands and in the other forms in which it may be read (C4)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from gateway import ambient
from gateway.classify import ScanLate, normalise
from gateway.classify.names import Names
from gateway.types import Finding

_PLAIN = re.compile(r"[^%&<\\=*`~\x00-\x08\x0b-\x1f\x7f]*")
_UNBROKEN = re.compile(r"[A-Za-z0-9+/_-]{21,}")


async def find_in_all_forms(
    names: Names, texts: Sequence[str], budget_s: float, allowed: Sequence[str] = ()
) -> list[list[Finding]]:
    """One list of findings a text. A finding in a derived form has the span of the part that the
    form came from. Raises `NoScan` as `Names.find` does; a part that was hidden from the reader is
    none of this: the patterns' scan finds it."""
    started_s = ambient.monotonic_s()
    asked: list[str] = []
    origins: list[tuple[int, normalise.Piece | None]] = []
    for at, text in enumerate(texts):
        asked.append(text)
        origins.append((at, None))
        if not is_plain(text):
            forms = await _derived(text, budget_s - (ambient.monotonic_s() - started_s))
            asked += [form.text for form in forms.pieces]
            origins += [(at, form) for form in forms.pieces]
    answers = await names.find(asked, budget_s - (ambient.monotonic_s() - started_s))
    found: list[list[Finding]] = [[] for _ in texts]
    for (at, piece), findings in zip(origins, answers, strict=True):
        for finding in findings:
            said = (texts[at] if piece is None else piece.text)[finding.start : finding.end]
            if said in allowed:
                continue
            if piece is None:
                found[at].append(finding)
            elif not any(_within(f, piece, finding) for f in found[at]):
                found[at].append(Finding(finding.type, piece.start, piece.end, finding.score))
    return found


async def _derived(text: str, budget_s: float) -> normalise.Forms:
    """In a thread; its work is bounded, so it ends by itself when nobody waits any longer."""
    try:
        async with asyncio.timeout(max(0.0, budget_s)):
            return await asyncio.to_thread(normalise.derived, text)
    except TimeoutError:
        raise ScanLate("the forms of the text were not derived in time") from None


def is_plain(text: str) -> bool:
    """Whether a text has no form but itself that could hold a name."""
    return text.isascii() and _PLAIN.fullmatch(text) is not None and _UNBROKEN.search(text) is None


def _within(known: Finding, piece: normalise.Piece, finding: Finding) -> bool:
    """The text as it stands showed this kind there already, as surely."""
    return (
        known.type == finding.type
        and known.start < piece.end
        and piece.start < known.end
        and known.score >= finding.score
    )
