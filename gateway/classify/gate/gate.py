"""Signs first, the expressions where there is one, and a second look at what is often harmless.

Most text shows no sign at all. So the first databases look for signs alone: short expressions, one
of which stands wherever an expression proper matches, or where the text could read otherwise when
decoded. An expression proper costs up to ten times as much to look for, and is asked only where a
sign of it is.
"""

from __future__ import annotations

from collections.abc import Iterator

import hyperscan

from gateway.classify import decoding, folding, numbers
from gateway.classify.gate import plan, triggers
from gateway.classify.gate.database import Hits
from gateway.classify.gate.needs import Needs
from gateway.classify.gate.plan import Compiled
from gateway.classify.gate.triggers import Look
from gateway.classify.patterns.syntax import NotUnderstood

MOST_FOLDED = 16_384
"""Characters. Folding a longer text takes too long to do it here."""
_LONGEST_RUN = 2048
_LIST_CHARS = triggers.LIST_GAP_CHARS + "0123456789"
_NOTHING: frozenset[Look] = frozenset()


class Gate:
    """`clear(text)` is true only if no scan of it could find anything that restricts."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled

    @classmethod
    def of(cls, needs: Needs) -> Gate | None:
        """None when something is needed that nothing is known of: then every text must be scanned.
        Takes seconds."""
        if needs.unknown:
            return None
        try:
            return cls(plan.compiled(needs))
        except (NotUnderstood, hyperscan.error):
            return None

    def clear(self, text: str) -> bool:
        looks = self._look(text)
        if looks is None:
            return False
        if Look.FOLD not in looks:
            return True
        if len(text) > MOST_FOLDED:
            return False
        folded = folding.fold(text)
        return folded == text or self._look(folded) is not None

    def _look(self, text: str) -> frozenset[Look] | None:
        """The kinds of triggers in it; None if it must be scanned."""
        compiled = self.compiled
        encoded = compiled.alphabet.encode(text)
        signs = compiled.ascii if text.isascii() else compiled.beyond
        hits = signs.scan(encoded)
        if hits is None:
            return None
        return self._ask(signs.asked(hits), text, encoded) if hits else _NOTHING

    def _ask(self, asked: set[int], text: str, encoded: bytes) -> frozenset[Look] | None:
        """The expressions proper that these signs stand for."""
        looks: set[Look] = set()
        runs: Hits = []
        for at in asked:
            question = self.compiled.questions[at]
            for database in question.databases:
                hits = database.scan(encoded)
                if hits is None:
                    return None
                for hit in hits:
                    looks.add(question.looks[hit[0]])
                    if question.looks[hit[0]] is Look.RUN:
                        runs.append(hit)
        if runs and any(map(decoding.says_something, _parts(text, runs, triggers.RUN_CHARS))):
            return None
        if Look.NUMBER in looks and (self.compiled.phones or self._is_number(text, encoded)):
            return None
        return frozenset(looks)

    def _is_number(self, text: str, encoded: bytes) -> bool:
        if any(database.scan(encoded) is None for database in self.compiled.numbers):
            return True
        hits = self.compiled.lists.scan(encoded)
        return hits is None or any(map(_is_regrouped, _parts(text, hits, _LIST_CHARS)))


def _parts(text: str, hits: Hits, chars: str) -> Iterator[str]:
    """The parts of `text` that consist of `chars` and that the hits end in, each once, with the
    characters beside them."""
    done = 0
    for _, end in sorted(hits, key=_end):
        end -= text[end - 1] not in chars
        if end <= done:
            continue
        before = text[max(0, end - _LONGEST_RUN) : end]
        after = text[end : end + _LONGEST_RUN]
        start = end - (len(before) - len(before.rstrip(chars)))
        done = end + len(after) - len(after.lstrip(chars))
        yield text[max(0, start - 1) : done + 2]


def _end(hit: tuple[int, int]) -> int:
    return hit[1]


def _is_regrouped(part: str) -> bool:
    return (
        any(True for _ in numbers.cards(part))
        or any(True for _ in numbers.regrouped(part))
        or decoding.has_codes(part)
    )
