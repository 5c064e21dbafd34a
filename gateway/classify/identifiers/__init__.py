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
from collections.abc import Iterable
from typing import Any, ClassVar

import regex
from presidio_analyzer import Pattern

from gateway.classify.patterns.narrowing import NarrowingRecognizer

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


# Between a label and a short code: signs, and words that say no more than that it follows.
LINKS = (
    rf"(?:{_SIGN}){{0,6}}?(?:(?:no|nr|number|id|value|is|was|ist|lautet|war|est|es|è|é|jest|to|brzmi|of"
    rf"|for|für|pour|para|per|dla|the)(?:{_SIGN}){{1,5}}){{0,2}}?"
)


def coded(words: str, value: str, name: str = "", score: float = 0.5) -> Pattern:
    """`value` right behind one of `words`, which are whole: many things have a code of its form."""
    return Pattern(
        f"{LABELLED} {name}".rstrip(),
        rf"(?<![^\W_])(?:{words})(?![^\W\d_]){LINKS}(?P<value>{value})(?![\w])(?![.,]\d)",
        score,
    )


def bare(value: str, name: str = "by itself", score: float = 0.3) -> Pattern:
    """`value` on its own, no part of a longer number or word."""
    return Pattern(name, rf"(?<![\w.,+-])(?:{value})(?![\w-]|[.,]\d)", score)


class Identifier(NarrowingRecognizer):
    """One type of identifier. Subclasses state `entity` and `forms`, and how check digits are told:
    the module of python-stdnum that reads them as `scheme`, or a `check` of their own."""

    entity: ClassVar[str]
    forms: ClassVar[tuple[Pattern, ...]]
    scheme: Any = None  # of python-stdnum
    ignored = ""  # in a value, before the scheme reads it: a regular expression
    hints: ClassVar[tuple[str, ...]] = ()  # Presidio's context words, which lift weak scores
    flags: ClassVar[int] = re.IGNORECASE | re.MULTILINE | re.DOTALL

    def __init__(self, supported_language: str = "en") -> None:
        super().__init__(
            supported_entity=self.entity,
            name=type(self).__name__,
            patterns=[copy.copy(form) for form in self.forms],  # to make one compiles it
            context=list(self.hints),
            global_regex_flags=self.flags,
            supported_language=supported_language,
        )

    def check(self, value: str) -> bool | None:
        """Whether the check digits are right; None when there is nothing to say."""
        if self.scheme is None:
            return None
        return bool(self.scheme.is_valid(re.sub(self.ignored, "", value)))

    def validate_result(self, pattern_text: str) -> bool | None:
        """True makes the score 1, False 0; None leaves what the pattern has."""
        for labelled_form in self._labelled:
            match = labelled_form.fullmatch(pattern_text)
            if match is not None:
                return self.check(match["value"]) or None
        return self.check(pattern_text)

    def parts(self, text: str, pattern: str, start: int, end: int) -> Iterable[tuple[int, int]]:
        """The finding without the words that led to it: one for each value behind them."""
        expression, groups = self._valued[pattern]
        match = expression.match(text, start) if groups else None
        if match is None:
            return [(start, end)]
        return [span for group in groups for span in match.spans(group)]

    @functools.cached_property
    def _labelled(self) -> list[regex.Pattern[str]]:
        forms = [p for p in self.patterns if p.name.startswith(LABELLED)]
        return [_compiled(pattern.regex, self.flags) for pattern in forms]

    @functools.cached_property
    def _valued(self) -> dict[str, tuple[regex.Pattern[str], list[str]]]:
        """Each pattern by its name, compiled as Presidio does it, and its groups of values."""
        compiled = [(p.name, _compiled(p.regex, self.flags)) for p in reversed(self.patterns)]
        return {
            name: (expression, [g for g in ("value", "more") if g in expression.groupindex])
            for name, expression in compiled
        }


@functools.cache
def _compiled(expression: str, flags: int) -> regex.Pattern[str]:
    """What regex keeps costs it ten microseconds to find again."""
    return regex.compile(expression, flags)
