"""The gate says "nothing here" only where the scanner would find nothing that restricts."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from presidio_analyzer import EntityRecognizer, Pattern, PatternRecognizer, RecognizerResult

from gateway.classify import ScannerUnfit, canaries
from gateway.classify.gate import armed as armed_module
from gateway.classify.gate.armed import ArmedGate, known
from gateway.classify.gate.database import scan_all
from gateway.classify.gate.needs import UNKNOWN, ExpressionNeed, Needs
from gateway.classify.gate.recognized import recognizer_needs
from gateway.classify.patterns.store import BlobStore
from gateway.classify.scanner.recognizers import PresidioScanner
from gateway.config import ClassifySettings

TYPES = frozenset({"BADGE"})
THRESHOLD = 0.35


@pytest.fixture(scope="session")
def gate(scanner: PresidioScanner) -> ArmedGate:
    """Of everything that restricts by default; compiled once and then kept in the user's cache."""
    return armed(scanner.needs(), BlobStore.for_user())


def armed(needs: Needs, store: BlobStore, samples: Sequence[tuple[str, str]] = ()) -> ArmedGate:
    async def arm() -> ArmedGate:
        gate = ArmedGate(store, nice=0)
        await gate.arm(needs, samples)
        await gate.built()
        return gate

    return asyncio.run(arm())


def pattern(regex: str, score: float, **more: Any) -> PatternRecognizer:
    return PatternRecognizer(
        supported_entity="BADGE", patterns=[Pattern("badge", regex, score)], **more
    )


class Oracle(EntityRecognizer):
    """Finds what no expression says."""

    def __init__(self) -> None:
        super().__init__(supported_entities=["BADGE"], name="Oracle")

    def load(self) -> None: ...

    def analyze(self, text: str, entities: list[str], nlp_artifacts: Any) -> list[RecognizerResult]:
        return []


# Every canary must fire; where nothing else is known, so must every text.


def test_every_sample_of_a_restricting_type_fires(gate: ArmedGate) -> None:
    assert gate.armed
    missed = [t for t, sample in canaries.positives(ClassifySettings()) if gate.clear(sample)]
    assert missed == []


def test_everyday_text_does_not_fire(gate: ArmedGate) -> None:
    assert gate.clear("The quick brown fox jumps over the lazy dog.")
    assert gate.clear("In 2023, 5 of 12 teams met; the budget was 1,250,000 (up 3.5 %).")
    assert gate.clear("On 2024-01-15 version 3.11.4 of **the library** came out.")
    assert gate.clear("@app.route('/x')\ndef f(a):\n    '''@N int'''\n    return a @ b")
    assert gate.clear("paint for a wall of 30 feet by 12 feet in the muffin tin that she bought")
    assert gate.clear("bind to 127.0.0.1 or `192.168.1.10`, mask 255.255.0.0, net 10.0.0.0/8")


@pytest.mark.parametrize("mark", ["*{}", "{}**", "`{}`", "__{}", "{}\x01"])
def test_marks_around_the_lines_of_a_number_do_not_hide_it(mark: str, gate: ArmedGate) -> None:
    card = "\n".join(mark.format(four) for four in ("4111", "1111", "1111", "1111"))
    assert not gate.clear(f"see\n{card}\nthere")
    assert not gate.clear(f"**Passport number:**\n\n{mark.format('X1234567')}")


def test_parentheses_are_read_by_the_lines_of_the_whole_text(
    gate: ArmedGate, scanner: PresidioScanner
) -> None:
    """The scan takes them for those of an area code where a text has several lines."""
    text = "see below\nid (536) 90 4399 ok"
    assert scanner.scan(text)
    assert not gate.clear(text)
    assert gate.clear(text.replace("\n", " "))


def test_a_recognizer_of_an_unknown_kind_makes_the_gate_fire_always(tmp_path: Path) -> None:
    needs = recognizer_needs([Oracle()], TYPES, THRESHOLD)
    assert needs.unknown == ("Oracle",)
    assert not armed(needs, BlobStore(tmp_path)).clear("nothing")


def test_a_scanner_that_does_not_tell_makes_the_gate_fire_always(tmp_path: Path) -> None:
    assert known(None) == known({"needs": 1}) == known("x") == UNKNOWN
    assert not armed(known(None), BlobStore(tmp_path)).clear("nothing")


def test_a_gate_fires_until_it_is_armed(tmp_path: Path) -> None:
    assert not ArmedGate(BlobStore(tmp_path)).clear("nothing")


SMALL = Needs((ExpressionNeed("PatternRecognizer", r"\bB-\d\d\b", 26),))
MISSED = [("BADGE", "no badge, no number, no address")]


def test_a_gate_that_misses_a_sample_is_not_kept_and_one_that_is_kept_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once calls are served it is refused."""
    dumps: list[bytes] = []
    compile_ = armed_module._compiled

    async def compiled(needs: Needs, nice: int) -> bytes:
        dumps.append(await compile_(needs, nice))
        return dumps[-1]

    monkeypatch.setattr(armed_module, "_compiled", compiled)
    store = BlobStore(tmp_path)
    gate = armed(SMALL, store, MISSED)
    assert gate.refused == "the gate misses its samples: BADGE"
    assert not gate.clear("nothing")
    assert list(tmp_path.iterdir()) == []
    assert store.write(armed_module._name(SMALL), dumps[0])
    gate = ArmedGate(store, nice=0)
    with pytest.raises(ScannerUnfit, match="the gate misses its samples: BADGE"):
        asyncio.run(gate.arm(SMALL, MISSED))
    assert not gate.clear("nothing")
    assert len(dumps) == 1


@pytest.mark.parametrize(
    ("recognizer", "needs"),
    [
        (pattern(r"\bB-\d\d\b", 0.5), (ExpressionNeed("PatternRecognizer", r"\bB-\d\d\b", 26),)),
        (pattern(r"\bB-\d\d\b", 0.1), ()),  # nothing lifts its score
        (
            pattern(r"\bB\d\b", 0.1, context=["Badge"]),
            (ExpressionNeed("PatternRecognizer", r"\bB\d\b", 26, ("badge",)),),
        ),
    ],
)
def test_what_a_pattern_needs(
    recognizer: PatternRecognizer, needs: tuple[ExpressionNeed, ...]
) -> None:
    assert recognizer_needs([recognizer], TYPES, THRESHOLD) == Needs(needs)


def test_recognizers_of_types_that_do_not_restrict_need_nothing() -> None:
    assert recognizer_needs([Oracle()], frozenset({"OTHER"}), THRESHOLD) == Needs()


def test_needs_survive_the_way_from_the_scanner() -> None:
    needs = Needs((ExpressionNeed("A", "x", 2, ("w",)),), ("b",))
    assert Needs.unpack(json.loads(json.dumps(needs.packed()))) == needs


# Nothing that the scanner finds passes.


def _rows(kit: Any, name: str) -> Iterator[str]:
    path = kit.shared / name
    if not path.exists():
        pytest.skip(f"the development set {name} is not here")
    with path.open() as lines:
        for line in lines:
            yield json.loads(line)["text"]


@pytest.mark.parametrize(
    "name",
    [
        "evasion.dev.jsonl",
        "ambientmeta.dev.jsonl",
        "presidio_research_v2.dev.jsonl",
        "presidio_research_large.dev.jsonl",
        "benign.dev.jsonl",
        "btc.dev.jsonl",
        "wnut17.dev.jsonl",
        "uner_ewt.dev.jsonl",
        "echr_fr_es.dev.jsonl",
    ],
)
def test_nothing_that_restricts_passes_in_a_development_set(
    name: str, gate: ArmedGate, scanner: PresidioScanner, kit: Any
) -> None:
    passed = [text for text in _rows(kit, name) if gate.clear(text)]
    assert [text for text in passed if scanner.scan(text)] == []


def test_the_databases_of_ascii_text_say_the_same_as_those_of_any(
    gate: ArmedGate, kit: Any
) -> None:
    assert gate.gate is not None
    compiled = gate.gate.compiled
    texts = [t for name in ("benign.dev.jsonl", "evasion.dev.jsonl") for t in _rows(kit, name)]
    texts = [text for text in texts if text.isascii()]
    assert len(texts) > 300
    for text in texts:
        hits = [scan_all(signs.plain, text.encode()) for signs in (compiled.ascii, compiled.beyond)]
        seen = [None if found is None else {number for number, _ in found} for found in hits]
        assert seen[0] == seen[1], text


def _some(signs: tuple[str, ...]) -> Callable[[str, random.Random], str]:
    return lambda value, rng: "".join(c + rng.choice(signs) for c in value)


def _each(write: Callable[[str], str], share: float = 0.6) -> Callable[[str, random.Random], str]:
    return lambda value, rng: "".join(write(c) if rng.random() < share else c for c in value)


def _moved(char: str, by: int) -> str:
    return chr(ord(char) + by) if "!" <= char <= "~" else char


_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_CYRILLIC = (
    "\u0430\u0435\u043e\u0440\u0441\u0445\u0410\u0412"
    "\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422"
)
_ALIKE = str.maketrans("aeopcxABEKMHOPCT", _CYRILLIC)
DISGUISES: dict[str, Callable[[str, random.Random], str]] = {
    "as it is": lambda value, rng: value,
    "zero-width": _some(("", "\u200b", "\u2060", "\u00ad")),
    "marks": _some(("", "", "**", "`", "__", "<b>", "</b>", "\x00", "*")),
    "full-width": _each(lambda c: _moved(c, 0xFEE0)),
    "look-alike": _each(lambda c: c.translate(_ALIKE)),
    "percent": _each(lambda c: "".join(f"%{b:02X}" for b in c.encode())),
    "entities": _each(lambda c: f"&#{ord(c)};"),
    "hex entities": _each(lambda c: f"&#x{ord(c):x};"),
    "escapes": _each(lambda c: f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c),
    "short escapes": _each(lambda c: f"\\x{ord(c):02x}" if ord(c) < 256 else c),
    "quoted-printable": _each(lambda c: "".join(f"={b:02X}" for b in c.encode())),
    "base64": lambda value, rng: base64.b64encode(value.encode()).decode(),
    "base64url": lambda value, rng: base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
    "base32": lambda value, rng: base64.b32encode(value.encode()).decode(),
    "hex": lambda value, rng: value.encode().hex(),
    "hex pairs": lambda value, rng: value.encode().hex(rng.choice(" :,")),
    "codes": lambda value, rng: rng.choice((", ", ",")).join(map(str, value.encode())),
    "doubled": lambda value, rng: "".join(
        c * rng.choice((1, 2, 3)) if c in "-. /_+" else c for c in value
    ),
    "dashes": lambda value, rng: value.replace("-", rng.choice("\u2013\u2014\u2010\u2212")),
    "spaces": lambda value, rng: value.replace(" ", rng.choice("\u00a0\u2009\u202f\u3000")),
    "other digits": _each(
        lambda c: chr(0x660 + int(c)) if c.isascii() and c.isdigit() else c, share=1
    ),
    "spelled": lambda value, rng: " ".join(
        _WORDS[int(c)] if c.isascii() and c.isdigit() else c for c in value
    ),
    "one by one": lambda value, rng: rng.choice(" -._/").join(value),
    "spoken": lambda value, rng: value.replace("@", rng.choice((" [at] ", " at ", "(at)"))).replace(
        ".", rng.choice((" dot ", "[.]", " . "))
    ),
    "bold": lambda value, rng: value.replace(" ", "** **", 1) + "**",
    "reversed": lambda value, rng: f"\u202e{value[::-1]}\u202c",
    "over lines": lambda value, rng: value.replace(" ", "\n").replace("-", "\n"),
    "marks at the ends of lines": lambda value, rng: value.replace(
        " ", rng.choice(("**\n", "`\n", "\n*", "__\n", "**\n\n**"))
    ),
    "capitals": lambda value, rng: rng.choice((value.upper(), value.lower(), value.title())),
}
_SURROUNDINGS = (
    *("please look at {} and tell me more", "{}", "see:{}.", "| {} |", "a{}b", "\n{}\n"),
    *("\u201c{}\u201d", "日本{}語", "x = {} ; y=3", "{},{}", "Name \u2013 {}", "*{}*"),
)


@pytest.mark.parametrize("disguise", sorted(DISGUISES))
def test_no_planted_value_passes_in_any_disguise(
    disguise: str, gate: ArmedGate, scanner: PresidioScanner
) -> None:
    rng = random.Random(disguise)
    values = [sample for _, sample in canaries.positives(ClassifySettings())]
    passed = []
    for _ in range(400):
        text = DISGUISES[disguise](rng.choice(values), rng)
        if rng.random() < 0.4:
            text = DISGUISES[rng.choice(sorted(DISGUISES))](text, rng)
        text = rng.choice(_SURROUNDINGS).replace("{}", text)
        if gate.clear(text) and scanner.scan(text):
            passed.append(text)
    assert passed == []
