"""Where stems of words stand in a folded text, of all of them at once: an expression of so many
alternatives takes fifty times as long as Hyperscan."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any


class Stems:
    """Expressions of Hyperscan over characters of ASCII; all others are the same to them."""

    def __init__(self, expressions: Sequence[str], *, once: bool = False) -> None:
        """`once`: whether `occurring` is asked, and not `find`."""
        self._once = once
        self._expressions = [expression.encode() for expression in expressions]
        self._database: Any = None
        self._lock = threading.Lock()  # a scan has the database's scratch for itself

    def find(self, plain: str) -> list[tuple[int, int, int]]:
        """Where each begins and ends, in order, and its place among the expressions; they may
        overlap."""
        return sorted(self._hits(plain))

    def occurring(self, plain: str) -> set[int]:
        """The places of those that stand anywhere in it."""
        return {number for _, _, number in self._hits(plain)}

    def _hits(self, plain: str) -> list[tuple[int, int, int]]:
        hits: list[tuple[int, int, int]] = []
        with self._lock:
            if self._database is None:  # for whoever looks for names
                self._database = self._compiled()
            self._database.scan(plain.encode("ascii", "replace"), _note, context=hits)
        return hits

    def _compiled(self) -> Any:
        import hyperscan  # the model alone, as it is measured on a card, goes without

        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        flags = hyperscan.HS_FLAG_DOTALL | (
            hyperscan.HS_FLAG_SINGLEMATCH if self._once else hyperscan.HS_FLAG_SOM_LEFTMOST
        )
        count = len(self._expressions)
        database.compile(
            expressions=self._expressions, ids=list(range(count)), flags=[flags] * count
        )
        return database


def _note(number: int, start: int, end: int, flags: int, hits: list[tuple[int, int, int]]) -> None:
    hits.append((start, end, number))
