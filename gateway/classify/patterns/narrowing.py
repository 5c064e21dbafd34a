"""Pattern recognizers that look again at what their patterns found.

The engine runs the patterns of any recognizer itself. One that overrides `analyze` it has to ask as
a whole, because nobody knows what it does there; one that says in `parts` what it makes of a match
it has not.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from presidio_analyzer import Pattern, PatternRecognizer, RecognizerResult


class NarrowingRecognizer(PatternRecognizer):
    """Its findings are parts of what its patterns match."""

    patterns: list[Pattern]

    def parts(self, text: str, pattern: str, start: int, end: int) -> Iterable[tuple[int, int]]:
        """The spans to report of what the pattern of that name matched in `text`: none, one or
        several. They depend on nothing else."""
        raise NotImplementedError

    def analyze(
        self,
        text: str,
        entities: list[str],
        nlp_artifacts: Any = None,
        regex_flags: int | None = None,
    ) -> list[RecognizerResult]:
        results = super().analyze(text, entities, nlp_artifacts, regex_flags)
        return [
            _part(whole, start, end)
            for whole in results
            for start, end in self.parts(text, _pattern(whole), whole.start, whole.end)
        ]


def _pattern(result: RecognizerResult) -> str:
    return str(result.analysis_explanation.pattern_name)


def _part(whole: RecognizerResult, start: int, end: int) -> RecognizerResult:
    part = copy.copy(whole)
    part.start, part.end = start, end
    return part
