"""What the tests of `gateway.classify.patterns` compare: findings of two engines, on many texts."""

from __future__ import annotations

import functools
import itertools
import json
import os
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import presidio_analyzer.predefined_recognizers  # noqa: F401 - their classes are looked up below
from presidio_analyzer import (
    AnalyzerEngine,
    EntityRecognizer,
    PatternRecognizer,
    RecognizerRegistry,
)
from presidio_analyzer.predefined_recognizers import PhoneRecognizer
from presidio_analyzer.recognizer_registry import RecognizerRegistryProvider

from gateway.classify.patterns.engine import PatternEngine
from gateway.classify.patterns.recognition import PatternHit
from gateway.classify.patterns.store import BlobStore
from gateway.classify.scanner.engine import BlankNlpEngine, pin_suffix_list, silence

RECORDS = Path(__file__).parents[4] / "shared" / "data" / "pii"
EVERYTHING = bool(os.environ.get("SPILLWAY_ALL_RECORDS"))
"""Set: compare all records instead of a sample. Minutes instead of seconds."""

Findings = list[tuple[str, int, int, float]]

VALUES = (
    *("4012888888881881", "3782-8224-631 0005", "5555 5555 5555 4444", "4012 8888 8888 1882"),
    *("DE89370400440532013000", "GB33 BUKB 2020 1555 5555 55", "gb33bukb20201555555555"),
    *("IL150120690000003111111 2 days", "FR76-3000-6000-0112-3456-7890-189", "XX00 1234 5678"),
    *("16Yeky6GMjeNkAiNcBY7ZhrLoMSgg1BoyZ", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"),
    *("jane.doe@example.com", "a@b.co.uk", "x.y+z@sub.example.org,", "me@corp.internal"),
    *("https://www.example.com/a?b=c#d", "www.example.org", "example.io/path", '"http://a.com"'),
    *(
        "192.168.0.1",
        "10.0.0.256",
        "2001:db8::ff00:42:8329",
        "::",
        "::1",
        "::ffff:10.1.2.3",
        "fe80::",
    ),
    *("00:1B:44:11:3A:B7", "001b.4411.3ab7", "123e4567-e89b-12d3-a456-426614174000"),
    *("078-05-1120", "078051120", "536.90.4399", "911-70-1234", "911701234", "078-051120"),
    *("A1234567", "912803456", "H12234567", "AC333991", "123456789012", "945456787654321"),
    *("BB1388568", "2222222222", "121000358", "401-023-2137", "4010232137", "AB123456C"),
    *("AA 12 34 56 B", "SW1A 1AA", "AB51 ABC", "MORGA657054SM9IJ", "12/25/2024", "2024-02-30"),
    *("01-JAN-2024", "JAN-24", "3/24", "2024-01-15T10:30:00.123Z", "25.12.1999", "1999/12/25"),
    *("55555555K", "Z8078221M", "X-1234567-L", "AAA123456", "11111111116", "44051401359"),
    *("AAAAAA00B11C333Y", "RSSMRA85T10A562S", "U1B123456C", "AA1234567A", "01333550323"),
    *("51 824 753 556", "000 000 019", "876 543 210", "2123 45670 1", "S2740116C", "53125226D"),
    *(
        "ABCDE1234F",
        "312345678909",
        "3123 4567 8909",
        "KSD1287349",
        "KA53ME3456",
        "27AAPFU0939F1ZV",
    ),
    *("960121-1234567", "960121-5234567", "104-81-50000", "M12345678", "1-2345-67890-12-1"),
    *("131052-308T", "811218-9876", "556036-0793", "10000000146", "34 ABC 123", "12345678903"),
    *(
        "8001015009087",
        "K1A 0B1",
        "046 454 286",
        "04110001",
        "12345678-9",
        "B-AB 1234",
        "HRB 12345",
    ),
    *("+1 425 882-8080", "(212) 555-0123", "020 7946 0958", "+44 20 7946 0958", "+49 30 901820"),
    *(
        "030 901820",
        "01 42 68 53 00",
        "+33142685300",
        "050-123-4567",
        "+972 50 123 4567",
        "0049 30 901820",
    ),
    *(
        "098765 43210",
        "+91 98765 43210",
        "(11) 96123-4567",
        "011 44 20 7946 0958",
        "0 15 11 96123 4567",
    ),
    *("425 882 8080 ext. 42", "425-882-8080x42", "+999 123 456", "1/2/2003", "211-227 (2003)"),
    *(
        "651-234-2345/332-445-1234",
        "12345 - 332-445-1234",
        "2012-01-02 08:00:11",
        "+1 (425) 882.8080",
    ),
)
"""One and more for the recognizers of Presidio, right, nearly right and wrong."""

WORDS = (
    *("card", "credit", "my", "phone number", "is", "Be", "be", "iban:", "passport", "the", "ssn#"),
    *(
        "license",
        "call",
        "bank",
        "tel.",
        "born on",
        "nhs",
        "ID",
        "über",
        "naïve",
        "żółw",
        "日本",
        "İ",
    ),
    *(
        "mailto:",
        "x=",
        "==",
        "...",
        "{",
        "}",
        "(",
        ")",
        "[1]",
        "\u017f\u212a",
        "a",
        "1",
        "//",
        "::",
    ),
    *("def f(x):", "return", '{"id": 7}', "v1.2.3", "os.sy", "$", "€12.50", "100%", "-----", "#"),
)
GLUE = (
    " ",
    " ",
    " ",
    "",
    "\n",
    "\t",
    ", ",
    ": ",
    "\u00a0",
    "\u200b",
    "-",
    ".",
    "\x0b",
    "  ",
    "\r\n",
)


def findings(results: Any) -> Findings:
    return sorted((r.entity_type, r.start, r.end, r.score) for r in results)


def of_hits(hits: Iterable[PatternHit]) -> Findings:
    return sorted((hit.type, hit.start, hit.end, hit.score) for hit in hits)


def found(engine: PatternEngine, text: str) -> Findings:
    """All that an engine finds in an English text."""
    return of_hits(engine.find(text, "en", engine.presidio.get_supported_entities("en"), 0.0))


def generated(seed: int, words: int) -> str:
    """A text of its own for every seed, with values, words and what may stand between them."""
    rng = random.Random(seed)
    parts = []
    for _ in range(words):
        part = rng.choice(VALUES) if rng.random() < 0.3 else rng.choice(WORDS)
        if rng.random() < 0.08:
            part = _in_other_digits(part, rng)
        if rng.random() < 0.1:
            part = rng.choice((part.upper(), part.lower(), part[: len(part) // 2], part * 2))
        parts += [part, rng.choice(GLUE)]
    return "".join(parts)


def _in_other_digits(text: str, rng: random.Random) -> str:
    zero = rng.choice((0x660, 0xFF10, 0x966, 0x1D7CE))
    return "".join(chr(zero + int(c)) if c.isascii() and c.isdigit() else c for c in text)


def records(least: int) -> Iterator[str]:
    """Texts of the development sets: all of them, or about `least` from all over them."""
    texts = [
        json.loads(line)["text"]
        for path in sorted(RECORDS.glob("*.jsonl"))
        for line in path.open(encoding="utf-8")
    ]
    step = 1 if EVERYTHING else max(1, len(texts) // least)
    return itertools.islice(texts, 0, None, step)


@functools.cache
def default_engine(*languages: str) -> AnalyzerEngine:
    """Presidio with the recognizers that it has switched on by itself."""
    pin_suffix_list()
    silence()
    wanted = list(languages)
    provider = RecognizerRegistryProvider(registry_configuration={"supported_languages": wanted})
    return engine_of(provider.create_recognizer_registry(), languages)


@functools.cache
def complete_engine() -> AnalyzerEngine:
    """Presidio with all of its recognizers that need no service and no model, for English."""
    pin_suffix_list()
    silence()
    registry = RecognizerRegistry(supported_languages=["en"])
    for kind in sorted({PhoneRecognizer, *_below(PatternRecognizer)}, key=lambda k: k.__name__):
        if kind.__module__.startswith("presidio_analyzer."):
            registry.add_recognizer(kind(supported_language="en"))
    return engine_of(registry, ("en",))


def engine_of(registry: RecognizerRegistry, languages: tuple[str, ...] = ("en",)) -> AnalyzerEngine:
    return AnalyzerEngine(
        registry=registry,
        nlp_engine=BlankNlpEngine(languages),
        supported_languages=list(languages),
    )


def registry_of(*recognizers: EntityRecognizer) -> RecognizerRegistry:
    return RecognizerRegistry(recognizers=list(recognizers), supported_languages=["en"])


@functools.cache
def patterns_over(presidio: AnalyzerEngine) -> PatternEngine:
    """Built; kept on disk for the next run of the tests."""
    engine = PatternEngine(presidio, BlobStore.for_user())
    assert engine.wait(800)
    assert engine.gated
    return engine


def _below(kind: Any) -> set[Any]:
    found: set[Any] = set()
    for one in kind.__subclasses__():
        found |= {one, *_below(one)}
    return found
