"""What to run for one language and one choice of entities: decided once, used for every text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from presidio_analyzer import EntityRecognizer
from presidio_analyzer.context_aware_enhancers import LemmaContextAwareEnhancer

from gateway.classify.patterns.automaton import Automaton, AutomatonExpression, Key
from gateway.classify.patterns.recognition import (
    Job,
    WholeRecognizer,
    recognizer_work,
)


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What to run for one language and one choice of entities."""

    recognizers: dict[str, EntityRecognizer]
    entities: list[str]
    ungated: tuple[Job, ...]
    gated: dict[int, tuple[Job, ...]]
    wholes: tuple[Any, ...]
    wholes_with_gates: tuple[Any, ...]
    gated_wholes: dict[int, tuple[int, ...]]
    """Places in `wholes_with_gates`, by the expression that opens them."""
    quiet: bool
    """Without a match there is nothing to run."""
    databases: tuple[int, ...]
    automaton: Automaton | None
    contexts: dict[int, tuple[str, ...]]
    """The context words of those that have some, in lower case, by the id of their recognizer."""
    own_context: bool
    """A recognizer, or the enhancer itself, has rules of its own for context words."""


def make_plan(
    recognizers: list[Any],
    wanted: list[str],
    automaton: Automaton | None,
    own_context: bool,
) -> ScanPlan:
    wholes: list[WholeRecognizer] = []
    jobs: list[Job] = []
    for recognizer in recognizers:
        if not recognizer.is_loaded:
            recognizer.load()
            recognizer.is_loaded = True
        work = recognizer_work(recognizer, automaton)
        if isinstance(work, WholeRecognizer):
            wholes.append(work)
        else:
            jobs += work
    databases, gated, ungated = _gates(jobs, automaton)
    known = {} if automaton is None else automaton.known
    free = tuple(w.recognizer for w in wholes if _ids(w.keys, known) is None)
    remaining = [w for w in wholes if _ids(w.keys, known) is not None]
    opening: dict[int, tuple[int, ...]] = {}
    for at, whole in enumerate(remaining):
        for id_ in _ids(whole.keys, known) or ():
            opening[id_] = (*opening.get(id_, ()), at)
        databases |= {known[key].database for key in whole.keys or ()}
    return ScanPlan(
        recognizers={recognizer.id: recognizer for recognizer in recognizers},
        entities=wanted,
        ungated=ungated,
        gated=gated,
        wholes=free,
        wholes_with_gates=tuple(w.recognizer for w in remaining),
        gated_wholes=opening,
        quiet=not ungated and not free and bool(databases),
        databases=tuple(sorted(databases)),
        automaton=automaton,
        contexts={id(r): tuple(map(str.lower, r.context)) for r in recognizers if r.context},
        own_context=own_context,
    )


def _gates(
    jobs: Iterable[Job], automaton: Automaton | None
) -> tuple[set[int], dict[int, tuple[Job, ...]], tuple[Job, ...]]:
    """The databases to scan, the jobs by the expression that opens them, and those without one."""
    known = {} if automaton is None else automaton.known
    gated: dict[int, tuple[Job, ...]] = {}
    databases, ungated = set(), []
    for job in jobs:
        ids = _ids(job.keys, known)
        if ids is None:
            ungated.append(job)
            continue
        for id_ in ids:
            gated[id_] = (*gated.get(id_, ()), job)
        databases |= {known[key].database for key in job.keys}
    return databases, gated, tuple(ungated)


def _ids(
    keys: Iterable[Key] | None, known: Mapping[Key, AutomatonExpression]
) -> frozenset[int] | None:
    """None when the automaton does not look for all of them."""
    if keys is None:
        return None
    ids = [known.get(key) for key in keys]
    if any(one is None for one in ids):
        return None
    return frozenset(one.id for one in ids if one is not None)


def has_own_context(enhancer: Any, recognizers: Iterable[EntityRecognizer]) -> bool:
    """Whether context words are looked for in another way than Presidio's usual one."""
    usual = (
        type(enhancer) is LemmaContextAwareEnhancer
        and enhancer.context_suffix_count == 0
        and enhancer.context_matching_mode == "substring"
    )
    return not usual or any(
        type(r).enhance_using_context is not EntityRecognizer.enhance_using_context
        or "enhance_using_context" in vars(r)
        for r in recognizers
    )
