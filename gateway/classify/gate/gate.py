"""Signs first, the expressions where there is one, and a second look at what is often harmless.

Most text shows no sign at all. So the first databases look for signs alone: short expressions, one
of which stands wherever an expression proper matches, or where the text could read otherwise when
decoded. An expression proper costs up to ten times as much to look for, and is asked only where a
sign of it is; what needs a digit, or a longer number, only where there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import hyperscan

from gateway.classify.gate import plan, triggers
from gateway.classify.gate.database import SignHits, scan_all
from gateway.classify.gate.needs import Needs
from gateway.classify.gate.plan import Compiled
from gateway.classify.gate.triggers import TriggerCheck
from gateway.classify.patterns.syntax import NotUnderstood
from gateway.classify.text import decoding, folding, numbers

MOST_FOLDED = 16_384
"""Characters. Folding a longer text takes too long to do it here."""
MOST_FORMS = 16
"""Numbers in another form, of which each costs a look."""
_LONGEST_RUN = 2048
_RUN_CHARS = triggers.RUN_CHARS
_LIST_CHARS = triggers.LIST_GAP_CHARS + "0123456789"
_RUN, _LINES, _MARK = TriggerCheck.RUN.value, TriggerCheck.LINES.value, TriggerCheck.MARK.value
_CONFIRM = TriggerCheck.CONFIRM.value
_FOLD, _DOUBLED = TriggerCheck.FOLD.value, TriggerCheck.DOUBLED.value
_CHANGED = frozenset({_FOLD, _DOUBLED, _MARK})
"""What the scanner reads in its plain spelling, too."""
_COSTLY = frozenset({_FOLD, _DOUBLED})
_BETWEEN = "\n|\n"  # no value goes across it


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
        inspection = _TextInspection(self.compiled)
        checks = inspection.checks(text)
        if checks is None or checks.isdisjoint(_CHANGED):  # as most texts
            return checks is not None
        if len(text) > MOST_FOLDED and not checks.isdisjoint(_COSTLY):
            return False
        if _FOLD not in checks:
            plain = folding.collapsed(folding.unmarked(text))
        else:
            decoded = folding.decoded(text)
            if decoded != text and inspection.says_something(decoded):
                return False
            plain = folding.plain(decoded)
        return inspection.checks(plain, is_plain=True) is not None


class _TextInspection:
    """The scans of one text and of its plain spelling. What both have in common is scanned once."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._runs: set[str] = set()  # those that say nothing
        self._lists: set[str] = set()  # without codes
        self._windows: set[tuple[int, bytes]] = set()  # without a match, by question

    def checks(self, text: str, is_plain: bool = False) -> set[int] | None:
        """The kinds of triggers in it; None if it must be scanned. `is_plain`: whether there is no
        plainer spelling, in which numbers are read."""
        encoded, signs = self._signs(text)
        if signs is None:
            return None
        checks = self._ask(signs, text, encoded)
        if checks is None:
            return None
        if signs.lists:
            spans = list(_spans(text, signs.lists, _LIST_CHARS))
            if self._has_codes(text, spans):
                return None
            if (is_plain or checks.isdisjoint(_CHANGED)) and self._has_forms(text, spans):
                return None
        return checks

    def _signs(self, text: str) -> tuple[bytes, SignHits | None]:
        compiled = self._compiled
        if text.isascii():
            encoded = text.encode()
            return encoded, compiled.ascii.find(encoded)
        encoded = compiled.alphabet.encode(text)
        return encoded, compiled.beyond.find(encoded)

    def _ask(self, signs: SignHits, text: str, encoded: bytes) -> set[int] | None:
        """The expressions proper that these signs stand for."""
        checks: set[int] = set()
        runs: list[int] = []
        questions = self._compiled.questions
        for at, ends in signs.near.items():
            if self._matches_near(at, ends, text, encoded):
                return None
        for at in signs.questions:
            question = questions[at]
            outcomes = question.checks
            if not question.databases:
                checks.update(outcomes)
                continue
            hits = scan_all(question.databases, encoded)
            if hits is None:
                return None
            for number, end in hits:
                outcome = outcomes[number]
                if outcome == _CONFIRM:
                    if question.confirmations[number].holds(text):  # guard: C14.confirm-match
                        return None
                    continue
                checks.add(outcome)
                if outcome == _RUN:
                    runs.append(end)
        parts = (text[max(0, start - 1) : end + 2] for start, end in _spans(text, runs, _RUN_CHARS))
        if any(map(self.says_something, parts)):
            return None
        if _LINES in checks and decoding.says_something_in_lines(text):
            return None
        return checks

    def says_something(self, text: str) -> bool:
        """Whether a run of base64 and the like in it does."""
        for run in decoding.runs_in(text):
            if run not in self._runs:
                if decoding.has_reading(run):
                    return True
                self._runs.add(run)
        return False

    def _matches_near(self, at: int, ends: Sequence[int], text: str, encoded: bytes) -> bool:
        """Whether an expression of a question matches near one of the ends of its sign."""
        question = self._compiled.questions[at]
        windows = [(at, window) for window in near(encoded, ends, question.around)]
        new = [window for window in windows if window not in self._windows]
        if not new:
            return False
        joined = _BETWEEN.encode().join([window for _, window in new])
        hits = scan_all(question.databases, joined)
        if not hits:
            self._windows.update(new)
            return hits is None
        # guard: C14.confirm-match -> return False
        return any(question.confirmations[number].holds(text) for number, _ in hits)

    def _has_codes(self, text: str, spans: Sequence[tuple[int, int]]) -> bool:
        for start, end in spans:
            part = text[max(0, start - 1) : end + 2]
            if part not in self._lists:
                if decoding.has_codes(part):
                    return True
                self._lists.add(part)
        return False

    def _has_forms(self, text: str, spans: Sequence[tuple[int, int]]) -> bool:
        """Whether a number must be scanned in its usual form, behind the words before it."""
        over_lines = "\n" in text  # guard: C14.line-breaks -> over_lines = False
        written: list[str] = []
        for start, end in spans:
            before = max(0, start - numbers.CONTEXT - 1)
            for form in numbers.forms(text[before : end + 2], over_lines):
                if form.end <= start - before:  # of the words before it
                    continue
                if form.is_card or len(written) >= MOST_FORMS:
                    return True
                written.append(form.text)
        if not written:
            return False
        joined = _BETWEEN.join(written)
        encoded, signs = self._signs(joined)
        return signs is None or self._ask(signs, joined, encoded) is None


def near(encoded: bytes, ends: Sequence[int], around: int) -> list[bytes]:
    """So many characters before and behind each of these, those that overlap in one."""
    windows: list[bytes] = []
    first, last = 0, 0
    for end in sorted(ends):
        if last and end - around > last:
            windows.append(encoded[first:last])
            last = 0
        if not last:
            first = max(0, end - around)
        last = end + around
    windows.append(encoded[first:last])
    return windows


def _spans(text: str, ends: Sequence[int], chars: str) -> Iterator[tuple[int, int]]:
    """The parts of `text` that consist of `chars` and that these end in, each once."""
    done = 0
    for end in sorted(ends):
        end -= text[end - 1] not in chars
        if end <= done:
            continue
        before = text[max(0, end - _LONGEST_RUN) : end]
        after = text[end : end + _LONGEST_RUN]
        start = end - (len(before) - len(before.rstrip(chars)))
        done = end + len(after) - len(after.lstrip(chars))
        yield start, done
