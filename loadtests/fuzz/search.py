"""The search: what was costliest so far is changed, and what costs more takes its place."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from loadtests.fuzz.families import FAMILIES
from loadtests.fuzz.inputs import MOST_BYTES, Input
from loadtests.fuzz.subject import Cost

MEASURES: dict[str, Callable[[Cost], float]] = {
    "hold": lambda cost: cost.hold_ms,
    "total": lambda cost: cost.total_ms,
    "memory": lambda cost: cost.memory_ratio,
}
_BEST = 6  # of each family and measure, with a key and without one
_NEW = 0.25  # of what is tried


@dataclass(frozen=True, slots=True)
class Finding:
    input: Input
    cost: Cost


@dataclass(slots=True)
class Search:
    """`keyed_bytes` bounds inputs with a key; those without are up to 1 MB."""

    seed: int
    families: tuple[str, ...]
    keyed_bytes: int = MOST_BYTES
    tried: int = 0
    best: dict[tuple[str, bool, str], list[Finding]] = field(default_factory=dict)

    def inputs(self) -> Iterator[Input]:
        """Without end; `learn` says what each has cost."""
        chance = random.Random(self.seed)
        while True:
            for name in self.families:
                family = FAMILIES[name]
                keyed = family.listener == "endpoint" or chance.random() < 0.5
                most = self.keyed_bytes if keyed else MOST_BYTES
                measure = chance.choice(tuple(MEASURES))
                known = self.best.get((name, keyed, measure), [])
                if not known or chance.random() < _NEW:
                    yield family.made(chance, keyed, most)
                else:
                    first, second = chance.choice(known).input, chance.choice(known).input
                    yield family.changed(chance, first, second, most)

    def learn(self, given: Input, cost: Cost) -> None:
        self.tried += 1
        for name, measure in MEASURES.items():
            best = self.best.setdefault((given.family, given.keyed, name), [])
            best.append(Finding(given, cost))
            best.sort(key=lambda finding: -measure(finding.cost))
            del best[_BEST:]

    def worst(self) -> Iterator[tuple[str, bool, str, Finding]]:
        for (family, keyed, measure), best in sorted(self.best.items()):
            yield family, keyed, measure, best[0]
