"""Recognizers of ours, beside Presidio's or in their place. The family: `Identifier`.

An identifier is told in one of two ways. A *bare* form is telling by itself: its shape is rare, or
its check digit is right. A *labelled* form stands beside the words that name it, in any of eight
languages, whatever the language of the text, because a person's number does not change with the
sentence around it. Beside its words a number counts even when its check digit is wrong: people
mistype, and restricted wins every doubt.

In a labelled pattern the group `value` is what is found, and so is each match of a group `more`;
the words around them are not.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import regex
from presidio_analyzer import Pattern, PatternRecognizer, RecognizerResult

LABELLED = "beside its words"  # how the names of such patterns begin

# From a label to its value: signs, and up to four words ("passport number is", `"pesel_no": "`).
_SIGN = r"[^\w;!?§€$%]|_"  # not what ends a sentence or a clause
_GAP = rf"(?:{_SIGN}){{0,6}}(?:[^\W\d_]{{1,15}}(?:{_SIGN}){{1,6}}){{0,4}}?"
# Reisepass-nummer, telefon-u; short words take no ending but a plural: `tin` is not in `tint`.
_ENDING = r"(?:(?<=[^\W\d_]{5})[^\W\d_]{1,12}|s)?(?![^\W\d_])"


def labelled(words: str, value: str, name: str = "", score: float = 0.5) -> Pattern:
    """`value` behind one of `words` (alternatives of a regular expression, roots of words)."""
    return Pattern(
        f"{LABELLED} {name}".rstrip(),
        rf"(?<![^\W_])(?:{words}){_ENDING}{_GAP}(?P<value>{value})(?![\w])(?![.,]\d)",
        score,
    )


def bare(value: str, name: str = "by itself", score: float = 0.3) -> Pattern:
    """`value` on its own, no part of a longer number or word."""
    return Pattern(name, rf"(?<![\w.,+-])(?:{value})(?![\w-]|[.,]\d)", score)


class Identifier(PatternRecognizer):
    """One type of identifier. Subclasses state `entity`, `forms` and perhaps `check`."""

    patterns: list[Pattern]

    entity: ClassVar[str]
    forms: ClassVar[tuple[Pattern, ...]]
    hints: ClassVar[tuple[str, ...]] = ()  # Presidio's context words, which lift weak scores
    flags: ClassVar[int] = re.IGNORECASE | re.MULTILINE | re.DOTALL

    def __init__(self, supported_language: str = "en") -> None:
        super().__init__(
            supported_entity=self.entity,
            name=type(self).__name__,
            patterns=[Pattern(f.name, f.regex, f.score) for f in self.forms],
            context=list(self.hints),
            global_regex_flags=self.flags,
            supported_language=supported_language,
        )

    def check(self, value: str) -> bool | None:
        """Whether the check digits are right; None when there is nothing to say."""
        return None

    def validate_result(self, pattern_text: str) -> bool | None:
        """True makes the score 1, False 0; None leaves what the pattern has."""
        for pattern in self.patterns:
            if pattern.name.startswith(LABELLED):
                match = self._expression(pattern).fullmatch(pattern_text)
                if match is not None:
                    return self.check(match["value"]) or None
        return self.check(pattern_text)

    def analyze(
        self,
        text: str,
        entities: list[str],
        nlp_artifacts: Any = None,
        regex_flags: int | None = None,
    ) -> list[RecognizerResult]:
        found = super().analyze(text, entities, nlp_artifacts, regex_flags)
        return [result for whole in found for result in self._trimmed(text, whole)]

    def _trimmed(self, text: str, whole: RecognizerResult) -> Iterator[RecognizerResult]:
        """The finding without the words that led to it: one for each value behind them."""
        name = whole.analysis_explanation.pattern_name
        expression = self._expression(next(p for p in self.patterns if p.name == name))
        match = expression.match(text, whole.start)
        groups = [group for group in ("value", "more") if group in expression.groupindex]
        if match is None or not groups:
            yield whole
            return
        for start, end in (span for group in groups for span in match.spans(group)):
            part = copy.copy(whole)
            part.start, part.end = start, end
            yield part

    def _expression(self, pattern: Pattern) -> regex.Pattern[str]:
        """As Presidio compiles it."""
        return _compiled(pattern.regex, self.flags)


@functools.cache
def _compiled(expression: str, flags: int) -> regex.Pattern[str]:
    """What regex keeps costs it ten microseconds to find again."""
    return regex.compile(expression, flags)
