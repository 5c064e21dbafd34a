"""Expressions that know of the scan that runs, for recognizers with an `analyze` of their own.

Presidio's `PatternRecognizer` keeps each expression compiled in its `Pattern`. For a recognizer
that overrides `analyze`, a stand-in is put there: it has all that the compiled expression has, and
while its text is scanned it looks for matches only where the scan says that there can be some. What
the recognizer makes of the matches is its own affair, so nothing is assumed about it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from presidio_analyzer import Pattern

from gateway.classify.patterns.automaton import Automaton, Key
from gateway.classify.patterns.finder import ExpressionFinder


@dataclass(frozen=True, slots=True)
class Scan:
    """What is known of a text: where expressions can match, by their id."""

    text: str
    folded: bytes
    ends: Mapping[int, Sequence[int]]
    automaton: Automaton


class _ScanLocal(threading.local):
    scan: Scan | None = None


_running = _ScanLocal()


@contextlib.contextmanager
def scanned(scan: Scan | None) -> Iterator[None]:
    outer, _running.scan = _running.scan, scan
    try:
        yield
    finally:
        _running.scan = outer


class ScannedExpression:
    """Stands in for a compiled expression."""

    def __init__(self, key: Key, compiled: Any) -> None:
        self._key = key
        self._compiled = compiled
        self._finder: tuple[Automaton, ExpressionFinder] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)

    def finditer(self, string: str, *args: Any, **kwargs: Any) -> Iterator[Any]:
        scan = _running.scan
        if scan is None or scan.text is not string or args or kwargs.keys() - {"timeout"}:
            return iter(self._compiled.finditer(string, *args, **kwargs))
        known = scan.automaton.known.get(self._key)
        if known is None:
            return iter(self._compiled.finditer(string, **kwargs))
        ends = scan.ends.get(known.id)
        if ends is None:
            return iter(())
        if self._finder is None or self._finder[0] is not scan.automaton:
            self._finder = scan.automaton, ExpressionFinder(*self._key, known.reading)
        return self._finder[1].find(string, scan.folded, ends, kwargs.get("timeout"))


def install(recognizer: Any) -> None:
    """Presidio compiles anew when it meets other flags, and then works as ever."""
    flags = int(recognizer.global_regex_flags)
    for pattern in recognizer.patterns:
        if _needs(pattern, flags):
            key = (pattern.regex, flags)
            pattern.compiled_regex = ScannedExpression(key, _Lazy(ExpressionFinder(*key, None)))
            pattern.compiled_with_flags = flags


def _needs(pattern: Pattern, flags: int) -> bool:
    there = isinstance(pattern.compiled_regex, ScannedExpression)
    return not there or pattern.compiled_with_flags != flags


class _Lazy:
    """An expression that is compiled when somebody asks for something of it."""

    def __init__(self, finder: ExpressionFinder) -> None:
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder.pattern, name)
