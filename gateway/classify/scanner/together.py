"""Findings of patterns and of the names model in one list."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.core.types import Finding

_HOLDS_NAMES = frozenset({"EMAIL_ADDRESS", "URL", "SECRET", "IBAN_CODE", "CRYPTO", "HIDDEN_TEXT"})
"""A name that is part of such a value is no mention of its own."""


def together(patterns: Iterable[Finding], names: Iterable[Finding]) -> list[Finding]:
    """Sorted by place. Of two findings of one type that overlap, where one is the names model's,
    the longer stays."""
    findings = list(patterns)
    holders = [(f.start, f.end) for f in findings if f.type in _HOLDS_NAMES]
    for name in names:
        if any(start <= name.start and name.end <= end for start, end in holders):
            continue
        rivals = [f for f in findings if f.type == name.type and _overlap(f, name)]
        if any(f.end - f.start >= name.end - name.start for f in rivals):
            continue
        findings = [f for f in findings if f not in rivals]
        findings.append(name)
    return sorted(findings, key=lambda f: (f.start, f.end, f.type))


def _overlap(one: Finding, other: Finding) -> bool:
    return one.start < other.end and other.start < one.end
