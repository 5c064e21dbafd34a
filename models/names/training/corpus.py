"""What is trained on: examples from templates and from the licensed sets, as arrays."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gateway.classify.names.model.features import Features
from gateway.classify.names.model.labels import BEGIN, INSIDE
from gateway.classify.names.model.words import cut
from training import sets, templates
from training.generate import Generator, joined, varied
from training.sets import Sample

TEXTS = Path(__file__).resolve().parent.parent / "text"
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl")
MAX_WORDS = 220
_BETWEEN = ("\n", "\n\n", " ", " ", "\n- ", "\nuser: ", " | ", "\n|\n")  # the last is the gateway's


@dataclass(frozen=True, slots=True)
class Example:
    rows: npt.NDArray[np.int32]  # (words, COLUMNS)
    labels: npt.NDArray[np.int8]  # (words,)
    text: str


def inflector() -> Callable[..., tuple[str, str]]:
    path = TEXTS.parent / "inflection.py"
    if not path.exists():
        return lambda given, surname, case: (given, surname)
    spec = importlib.util.spec_from_file_location("inflection", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["inflection"] = module
    spec.loader.exec_module(module)
    return module.inflect  # type: ignore[no-any-return]


def labelled(sample: Sample, features: Features) -> Example | None:
    words = cut(sample.text)
    if not words.words:
        return None
    labels = np.zeros(len(words), dtype=np.int8)
    spans = sorted(sample.spans)
    at = 0
    for start, end, kind in spans:
        while at < len(words) and words.ends[at] <= start:
            at += 1
        first = True
        while at < len(words) and words.starts[at] < end:
            labels[at] = BEGIN[kind] if first else INSIDE[kind]
            first = False
            at += 1
    return Example(features.rows(words)[:MAX_WORDS], labels[:MAX_WORDS], sample.text)


@dataclass
class Sources:
    """Templates: language, file, parts, and how often each is filled in one round."""

    templates: list[tuple[str, str, tuple[templates.Part, ...], int]]
    real: list[Sample]

    @classmethod
    def read(cls, data: Path | None, fills: int = 8, seed: int = 0) -> Sources:
        found = []
        for name, lang, times in (
            *((f"{lang}.txt", lang, fills) for lang in LANGUAGES),
            ("hard_negatives.txt", "en", max(2, fills // 2)),
            ("hard_positives.txt", "en", fills * 2),
            ("tweets.txt", "en", fills * 2),
        ):
            path = TEXTS / name
            if not path.exists():
                continue
            for line in path.read_text("utf-8").splitlines():
                if not line.strip() or line.startswith("#"):
                    continue
                try:
                    parts = templates.parse(line)
                except templates.BadTemplate as exc:
                    print(f"{name}: {exc}", file=sys.stderr)
                    continue
                mentions = any(p.slot or p.kind for p in parts)
                found.append((lang, path.stem, parts, times if mentions else max(2, times // 4)))
        real = []
        if data is not None:
            for name in sets.SHIPPABLE:
                real += list(sets.read(data, name, held_out=False))
        return cls(found, real)

    def samples(self, generator: Generator, rng: random.Random) -> Iterator[Sample]:
        """One round, shuffled within languages; some joined to longer texts."""
        by_language: dict[str, list[Sample]] = {}
        for lang, source, parts, times in self.templates:
            for _ in range(times):
                made = varied(generator.fill(parts, lang, source), rng)
                by_language.setdefault(lang, []).append(made)
        for sample in self.real:
            # The sets are written with care, callers' texts are not.
            by_language.setdefault(sample.lang, []).append(
                varied(sample, rng) if rng.random() < 0.5 else sample
            )
        for found in by_language.values():
            rng.shuffle(found)
            yield from _some_joined(found, rng)


def _some_joined(found: Sequence[Sample], rng: random.Random) -> Iterator[Sample]:
    at = 0
    while at < len(found):
        count = rng.choice((1, 1, 1, 1, 2, 2, 3, 5)) if len(found[at].text) < 400 else 1
        yield joined(found[at : at + count], rng.choice(_BETWEEN))
        at += count
