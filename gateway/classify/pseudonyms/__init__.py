"""Surrogates in the place of personal data, for calls that would be clear without it.

A call that is restricted only for what was found in it, and whose key and model both allow it, may
leave in another form: each finding is replaced by a surrogate of the same format, the new text is
read again, and the answer gets the originals back. Whatever is doubtful on the way, the call stays
as it is, on the premises.
"""

from __future__ import annotations

from typing import Protocol

from gateway.core.types import Classification, Finding, InferenceRequest, Tightening


class SpanFinder(Protocol):
    """Finds all that restricts, each with its exact span."""

    async def find(self, text: str, added: Tightening, budget_s: float) -> list[Finding]:
        """What restricts a caller with these additions. Raises a `NoScan` when there is nothing to
        trust."""
        ...


class Verdicts(Protocol):
    """The classifier of all calls. Neither raises but for cancellation."""

    async def classify(self, request: InferenceRequest) -> Classification: ...
    async def complete(
        self, request: InferenceRequest, classification: Classification
    ) -> Classification: ...


class PseudonymDoubt(Exception):
    """The call stays on the premises. `reason` is a code of `DOUBTS`, and there is no content."""

    def __init__(self, reason: str) -> None:
        assert reason in DOUBTS
        super().__init__(reason)
        self.reason = reason


DOUBTS = {
    "no_scan": "its findings could not be had: the scan failed, or was late",
    "elsewhere": "a finding is not within one string: it is in a key, a number or two strings",
    "overlap": "two findings overlap, and neither holds the other",
    "no_surrogate": "a finding of a type, or in a form, for which there is no surrogate",
    "too_many": "more different values than one call may have replaced",
    "not_reversible": "the originals could not be put back for certain",
    "left_over": "something of an original is still there",
    "not_clean": "the new text restricts, or could not be read",
    "failed": "a bug; the log has the place",
}
"""Why a call was not pseudonymised although it was allowed."""
