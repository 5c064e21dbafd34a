"""Signs first, the expressions where there is one, and a second look at what is often harmless.

Most text shows no sign at all. So the first databases look for signs alone: short expressions, one
of which stands wherever an expression proper matches, or where the text could read otherwise when
decoded. An expression proper costs up to ten times as much to look for, and is asked only where a
sign of it is; what needs a digit, or a longer number, only where there is one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Set

import hyperscan

from gateway.classify.gate import plan, triggers
from gateway.classify.gate.database import Hits, scan_all
from gateway.classify.gate.necessary import GAP_CHARS
from gateway.classify.gate.needs import Needs
from gateway.classify.gate.plan import NUMBER, Compiled
from gateway.classify.gate.triggers import TriggerCheck
from gateway.classify.patterns.syntax import NotUnderstood
from gateway.classify.text import decoding, folding, numbers

MOST_FOLDED = 16_384
"""Characters. Folding a longer text takes too long to do it here."""
MOST_FORMS = 16
"""Numbers in another form, of which each costs a look."""
_LONGEST_RUN = 2048
_LIST_CHARS = triggers.LIST_GAP_CHARS + "0123456789"
_NUMBER_CHARS = GAP_CHARS + "0123456789"
_NOTHING: frozenset[TriggerCheck] = frozenset()
_FOLDED = frozenset({TriggerCheck.FOLD, TriggerCheck.DOUBLED})


class Gate:
    """`clear(text)` is true only if no scan of it could find anything that restricts."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled

    @classmethod
    def from_needs(cls, needs: Needs) -> Gate | None:
        """None when something is needed that nothing is known of: then every text must be scanned.
        Takes seconds."""
        if needs.unknown:
            return None
        try:
            return cls(plan.compiled(needs))
        except (NotUnderstood, hyperscan.error):
            return None

    def clear(self, text: str) -> bool:
        looks = self._triggered(text)
        if not looks:  # as of most texts
            return looks is not None
        plain = text
        if TriggerCheck.MARK in looks and TriggerCheck.FOLD not in looks:
            plain = folding.unmarked(text)
            looks = self._triggered(plain)
        if looks is None or looks.isdisjoint(_FOLDED):
            return looks is not None
        if len(text) > MOST_FOLDED:
            return False
        if TriggerCheck.FOLD not in looks:
            return self._triggered(folding.collapsed(plain)) is not None
        decoded = folding.decoded(text)
        if decoded != text and decoding.says_something(decoded):
            return False
        return self._triggered(folding.fold(text)) is not None

    def _triggered(self, text: str, numbers_too: bool = True) -> Set[TriggerCheck] | None:
        """The kinds of triggers in it; None if it must be scanned. `numbers_too`: whether what its
        numbers say in another form counts."""
        if text.isascii():
            signs, encoded = self.compiled.ascii, text.encode()
        else:
            signs, encoded = self.compiled.beyond, self.compiled.alphabet.encode(text)
        hits = scan_all(signs.plain, encoded)
        if not hits:
            return None if hits is None else _NOTHING
        triggered = signs.triggered(hits, encoded)
        return None if triggered is None else self._ask(triggered, text, encoded, numbers_too)

    def _ask(
        self, triggered: Collection[int], text: str, encoded: bytes, numbers_too: bool
    ) -> Set[TriggerCheck] | None:
        """The expressions proper that these signs stand for."""
        looks: set[TriggerCheck] = set()
        runs: Hits = []
        for at in triggered:
            question = self.compiled.questions[at]
            if not question.databases:
                looks.update(question.looks)
                continue
            hits = scan_all(question.databases, encoded)
            if hits is None:
                return None
            for hit in hits:
                looks.add(question.looks[hit[0]])
                if question.looks[hit[0]] is TriggerCheck.RUN:
                    runs.append(hit)
        if runs and any(map(decoding.says_something, _parts(text, runs, triggers.RUN_CHARS))):
            return None
        if TriggerCheck.LINES in looks and decoding.says_something_in_lines(text):
            return None
        if TriggerCheck.NUMBER in looks and self._is_number(text, encoded, numbers_too):
            return None
        return looks

    def _is_number(self, text: str, encoded: bytes, numbers_too: bool) -> bool:
        hits = self.compiled.rows.scan(encoded)
        if hits is None:
            return True
        lists = [hit for hit in hits if hit[0] != NUMBER] if numbers_too else []
        parts = list(_parts(text, lists, _LIST_CHARS))
        if any(map(decoding.has_codes, parts)):
            return True
        if any(map(numbers.says_more, parts)) and self._is_another_number(text):
            return True
        most = _most_digits(text, hits)
        return any(
            scan_all(numbers.databases, encoded) is None
            for numbers in reversed(self.compiled.numbers)  # long ones are rarely harmless
            if numbers.least_digits <= most
        )

    def _is_another_number(self, text: str) -> bool:
        """Whether one of them must be scanned in its usual form, behind the words before it."""
        forms = list(itertools.islice(numbers.forms(text), MOST_FORMS + 1))
        if len(forms) > MOST_FORMS or any(form.is_card for form in forms):
            return True
        return any(self._triggered(form.text, numbers_too=False) is None for form in forms)


def _most_digits(text: str, hits: Hits) -> float:
    """In one of the numbers that end where the hits do, as far as they are of ASCII."""
    if not text.isascii():
        return math.inf
    rows = list(_parts(text, [hit for hit in hits if hit[0] == NUMBER], _NUMBER_CHARS))
    if any(len(row) > _LONGEST_RUN for row in rows):
        return math.inf
    return max((sum(map(str.isdigit, row)) for row in rows), default=0)


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
