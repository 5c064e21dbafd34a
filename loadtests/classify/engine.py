"""The pattern engine against Presidio's own: `python -m loadtests.classify.engine [--json]`.

Both get the same texts in turn, so that what else the machine does falls on both, and what counts
is the processor time of the one thread that both run in. The texts are mixed: prose, code, JSON,
mail addresses, numbers and names, generated here from a fixed seed. Each text is seen once while
timing; the regexes are compiled before. A difference in types, spans or scores is counted, and
fails the run.

`--records DIR` compares all texts of the JSONL files in DIR as well, each once.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from presidio_analyzer import AnalyzerEngine
from presidio_analyzer.recognizer_registry import RecognizerRegistryProvider

from gateway.classify.patterns.engine import PatternEngine
from gateway.classify.scanner.engine import BlankNlpEngine, build_engine, pin_suffix_list, silence
from gateway.config import ClassifySettings

SIZES = {100: 400, 1024: 150, 65_536: 8}
"""Characters, and how many texts of that size."""
PROSE = (
    "Could you summarise the attached notes before the meeting on Thursday?",
    "The treaty was signed after three weeks of talks, and nobody was quite happy with it.",
    "Write a limerick about a cat that refuses to leave the keyboard.",
    "My name is Amelia Hartmann and I moved to Lisbon with Tomás last spring.",
    "Please draft a polite reply to Mr. Okafor, who asked for a refund twice.",
    "A train leaves at 14:30 and covers 320 km in 2.5 hours; how fast is it?",
)
CODE = (
    "def area(r: float) -> float:\n    return 3.14159 * r ** 2\n",
    '{"model": "m-7b", "temperature": 0.2, "stop": ["\\n"], "n": 1}\n',
    "for (let i = 0; i < items.length; i++) { total += items[i].price; }\n",
    "SELECT id, name FROM users WHERE created_at > '2024-05-01' LIMIT 20;\n",
    "$ git log --oneline | head -5\nfba8b7c fix the parser, see #1284\n",
)
VALUES: tuple[Callable[[random.Random], str], ...] = (
    lambda r: f"write to {_letters(r, 6)}.{_letters(r, 7)}@{_letters(r, 8)}.com",
    lambda r: f"call ({r.randint(201, 989)}) {r.randint(200, 999)}-{r.randint(1000, 9999)}",
    lambda r: f"card 4{r.randint(10**14, 10**15 - 1)}",
    lambda r: f"order {r.randint(10**5, 10**9)} costs {r.randint(1, 900)}.{r.randint(10, 99)}",
    lambda r: f"ssn {r.randint(100, 899)}-{r.randint(10, 99)}-{r.randint(1000, 9999)}",
    lambda r: f"host 10.{r.randint(0, 255)}.{r.randint(0, 255)}.{r.randint(1, 254)}",
    lambda r: f"https://www.{_letters(r, 9)}.org/{_letters(r, 5)}",
)


def _letters(rng: random.Random, count: int) -> str:
    return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=count))


def mixed_text(rng: random.Random, size: int) -> str:
    """About one value in 250 characters, with prose and code around it."""
    parts: list[str] = []
    length = 0
    while length < size:
        kind = rng.random()
        part = rng.choice(PROSE) if kind < 0.6 else rng.choice(CODE)
        if kind > 0.75:
            part = rng.choice(VALUES)(rng) + "."
        parts.append(part)
        length += len(part) + 1
    at = rng.randint(0, max(0, length - 1 - size))
    return " ".join(parts)[at : at + size]


@dataclass(frozen=True, slots=True)
class Row:
    """Medians over the texts of one size. At 100 characters about half of them have a finding, or
    something like one, which costs ten times what the others cost: so the ratios of the texts with
    findings and of those without stand beside that of all."""

    registry: str
    characters: int
    texts: int
    presidio_ms: float
    patterns_ms: float
    ratio_of_medians: float
    ratio_of_totals: float
    with_findings: int
    ratio_with_findings: float
    ratio_without_findings: float
    differences: int


def measure(name: str, engine: PatternEngine, size: int, texts: Sequence[str]) -> Row:
    wanted = engine.presidio.get_supported_entities("en")
    theirs, own, differences = [], [], 0
    ratios: dict[bool, list[float]] = {False: [], True: []}
    for text in texts:
        begin = time.thread_time()
        expected = engine.presidio.analyze(text, "en", entities=wanted, score_threshold=0.0)
        middle = time.thread_time()
        found = engine.find(text, "en", wanted, 0.0)
        end = time.thread_time()
        theirs.append(middle - begin)
        own.append(end - middle)
        ratios[bool(expected)].append((middle - begin) / (end - middle))
        known = sorted((f.entity_type, f.start, f.end, f.score) for f in expected)
        differences += known != sorted((f.type, f.start, f.end, f.score) for f in found)
    medians = statistics.median(theirs), statistics.median(own)
    return Row(
        name,
        size,
        len(texts),
        medians[0] * 1e3,
        medians[1] * 1e3,
        medians[0] / medians[1],
        sum(theirs) / sum(own),
        len(ratios[True]),
        statistics.median(ratios[True] or [math.nan]),
        statistics.median(ratios[False] or [math.nan]),
        differences,
    )


def engines() -> dict[str, PatternEngine]:
    pin_suffix_list()
    silence()
    provider = RecognizerRegistryProvider(registry_configuration={"supported_languages": ["en"]})
    default = AnalyzerEngine(
        registry=provider.create_recognizer_registry(),
        nlp_engine=BlankNlpEngine(("en",)),
        supported_languages=["en"],
    )
    return {
        "Presidio's default": PatternEngine(default),
        "the gateway's": PatternEngine(build_engine(ClassifySettings())),
    }


def rows(seed: int) -> Iterable[Row]:
    for name, engine in engines().items():
        engine.wait()
        rng = random.Random(seed)
        for _ in range(200):  # every regex compiled, every branch warm
            warm = mixed_text(rng, 1000)
            engine.presidio.analyze(warm, "en")
            engine.find(warm, "en", engine.presidio.get_supported_entities("en"), 0.0)
        for size, count in SIZES.items():
            texts = [mixed_text(rng, size) for _ in range(count)]
            yield measure(name, engine, size, texts)


def record_rows(directory: Path) -> Iterable[Row]:
    texts = [
        json.loads(line)["text"]
        for path in sorted(directory.glob("*.jsonl"))
        for line in path.open(encoding="utf-8")
    ]
    average = sum(map(len, texts)) // max(1, len(texts))
    for name, engine in engines().items():
        engine.wait()
        yield measure(f"{name}, records", engine, average, texts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=Path)
    given = parser.parse_args()
    found = list(rows(given.seed))
    found += record_rows(given.records) if given.records else ()
    if given.json:
        print(json.dumps([asdict(row) for row in found], indent=1))
    else:
        print(
            f"{'registry':28} {'chars':>6} {'Presidio':>11} {'patterns':>11} {'ratio':>6}"
            f" {'of totals':>9} {'with':>5} {'ratio':>6} {'without':>7} {'differ':>6}"
        )
        for row in found:
            print(
                f"{row.registry:28} {row.characters:6} {row.presidio_ms:8.3f} ms"
                f" {row.patterns_ms:8.4f} ms {row.ratio_of_medians:6.1f}"
                f" {row.ratio_of_totals:9.1f} {row.with_findings:5} {row.ratio_with_findings:6.1f}"
                f" {row.ratio_without_findings:7.1f} {row.differences:6}"
            )
    return 1 if any(row.differences for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
