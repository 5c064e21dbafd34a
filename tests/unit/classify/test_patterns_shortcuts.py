"""Each thing that is skipped, by itself: where it must not be."""

from __future__ import annotations

import random
import stat
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import hyperscan
import pytest
import regex
from presidio_analyzer import Pattern, PatternRecognizer
from presidio_analyzer.predefined_recognizers import PhoneRecognizer

from gateway.classify.patterns import automaton, syntax
from gateway.classify.patterns.alphabet import Alphabet, CharSet
from gateway.classify.patterns.automaton import Automaton, fingerprint
from gateway.classify.patterns.engine import PatternEngine
from gateway.classify.patterns.finder import ExpressionFinder
from gateway.classify.patterns.gate import PatternGate
from gateway.classify.patterns.store import BlobStore
from tests.unit.classify import patterns_rig as rig

USUAL = regex.DOTALL | regex.MULTILINE | regex.IGNORECASE

EXPRESSIONS = (
    *(r"\bab+c\b", r"(?<!\d)\d{3}(?!\d)", r"^ab$", r"\Aab\Z", r"a.c", r"[^a]b", r"(?:ab){2,3}c?"),
    *(r"(a|b)\1", r"\Bb\B", r"(?<=\W)a|^b", r"a*b", r"(?=ab)a", r"(?!ab)a.", r"b(?=c|$)", r"\s+b"),
    *(r"[\dé]+", r"(?i:A)b", r"\w\W\w", r"a{2,}", r"(?:^|(?<=\W))(b|c)(?:(?=\W)|$)", r"a|(?:)b|cc"),
    *(
        r"(?<!ab)c",
        r"(?<![\w.])1(?!\.\d)",
        r"k\b",
        r"\bs",
        r"(?>a|ab)c",
        r"a*?c",
        r"x{0,3}ab",
        r"$a|b",
    ),
    *(
        r"[A-Z]\d{2}",
        r"\D\d",
        r"(?:a(?:b|\b)){2}",
        r"ab?(?!c)",
        r"\b(?:1|2[0-5]?)\b",
        r"(?:\bab|c\b)+",
    ),
    *(r"\d{4}|ab", r"(?:\d{2}){2}b?", r"[12]{4,}", r"(?:\da?){5}", r"(?=\d{5})\d\w", r"\d{3}[^b]"),
)
OVERLAPPING = r"a.{0,100}|[^a]{0,100}b"
"""One branch is reported at its start, the other at its end: regions overlap matches before."""
LETTERS = (
    "a",
    "b",
    "c",
    "A",
    "1",
    "2",
    " ",
    "\n",
    ".",
    "é",
    "\u017f",
    "\u212a",
    "\u0663",
    "\ud800",
    "日",
)


@cache
def _texts(length: int) -> tuple[str, ...]:
    rng = random.Random(length)
    return tuple("".join(rng.choices(LETTERS, k=rng.randint(0, length))) for _ in range(100))


def _ends(automaton: Automaton, folded: bytes) -> list[int]:
    found: list[int] = []

    def report(_: int, __: int, end: int, ___: int, ____: object) -> None:
        found.append(end)

    automaton.scan(folded, sorted({known.database for known in automaton.known.values()}), report)
    return found


@pytest.mark.parametrize("flags", [USUAL, 0, regex.ASCII, regex.MULTILINE], ids=str)
@pytest.mark.parametrize("expression", [*EXPRESSIONS, OVERLAPPING])
def test_the_finder_yields_what_the_expression_yields(expression: str, flags: int) -> None:
    """On short texts, which are searched as a whole, and on long ones, which are not."""
    automaton = Automaton.build([(expression, flags)])
    plain = regex.compile(expression, flags)
    known = automaton.known.get((expression, flags))
    finder = ExpressionFinder(expression, flags, None if known is None else known.reading)
    for text in (
        *_texts(8),
        *_texts(300),
        "x" * 500 + " ab abc " + "y" * 500 + "12 b",
        "a" + "z" * 199 + "b",
    ):
        folded = automaton.alphabet.encode(text)
        assert len(folded) == len(text)
        ends = None if known is None else _ends(automaton, folded)
        expected = [m.span() for m in plain.finditer(text)]
        found = [] if ends == [] else [m.span() for m in finder.find(text, folded, ends, None)]
        assert found == expected, repr(text)


def test_nearly_all_of_presidios_expressions_have_a_gate() -> None:
    engine = rig.patterns_over(rig.complete_engine())
    plan = engine._plan("en", tuple(engine.presidio.get_supported_entities("en")))
    assert not plan.wholes or all(not isinstance(w, PatternRecognizer) for w in plan.wholes)
    assert not plan.ungated


@pytest.mark.parametrize(
    ("expression", "flags"),
    [
        (r"(?:ab){e<=1}", 0),  # fuzzy matching, which the standard library reads as characters
        (r"[[a-z]--[b]]", regex.VERSION1),
        (r"\p{Lu}", 0),
        (r"a(?i)b", 0),  # holds for `b` alone in regex
        (r"\mab", 0),
        (r"[[:alpha:]]", 0),
        (r"a", regex.FULLCASE),
    ],
)
def test_what_could_mean_something_else_is_not_understood(expression: str, flags: int) -> None:
    with pytest.raises(syntax.NotUnderstood):
        syntax.parse(expression, flags)


def test_warnings_of_other_threads_are_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's filters of warnings hold for all threads, and patterns are compiled in one."""
    parse = syntax._parser.parse

    def beside_another(expression: str, flags: int) -> Any:
        warnings.warn("of another thread", FutureWarning, stacklevel=1)
        return parse(expression, flags)

    monkeypatch.setattr(syntax._parser, "parse", beside_another)
    with pytest.warns(FutureWarning, match="of another thread"):
        syntax.parse("ab", 0)


def test_flags_in_the_middle_that_hold_anyway_are_understood() -> None:
    assert syntax.parse(r"\b(?i)ab", USUAL) == syntax.parse(r"\bab", USUAL)


@pytest.mark.parametrize("expression", [r"\d*", r"^a?", r"(?=a)"])
def test_what_matches_the_empty_text_has_no_gate(expression: str) -> None:
    assert not Automaton.build([(expression, USUAL)]).known


def test_characters_that_an_expression_tells_apart_have_bytes_of_their_own() -> None:
    sets = [
        CharSet(s, regex.IGNORECASE) for s in (r"[\U000000e0-\U000000e5]", r"s", r"\d", r"[^\w]")
    ]
    alphabet = Alphabet.from_sets(sets)
    for chars in sets:
        mask = alphabet.class_bytes(chars)
        for point in (*range(0x400), 0x661, 0x17F, 0x212A, 0xFF11, 0x65E5, 0xD800, 0x10FFFF):
            inside = chars.compiled().match(chr(point)) is not None
            assert bool(mask >> alphabet.encode(chr(point))[0] & 1) == inside, hex(point)


def test_every_way_to_read_a_text_gives_the_same_bytes() -> None:
    alphabet = Alphabet.from_sets([CharSet(r"[\U000000e0-\U000000e5]", 0), CharSet(r"[^\w]", 0)])
    for text in ("é à\x85\xa0ß", "“é” \u2013 €", "é 日 “"):
        whole = [alphabet.encode(character + "日")[:1] for character in text]
        assert alphabet.encode(text) == b"".join(whole)


def test_more_classes_than_bytes_over_match_and_never_under_match() -> None:
    """Eight sets that tell 255 characters apart: each holds those whose number has its bit."""
    numbers = range(1, 256)
    written = [f"\\U{0x400 + n:08x}" for n in range(256)]
    sets = [
        CharSet(f"[{''.join(written[n] for n in numbers if n >> bit & 1)}]", 0) for bit in range(8)
    ]
    alphabet = Alphabet.from_sets(sets)
    for bit, chars in enumerate(sets):
        mask = alphabet.class_bytes(chars)
        for n in numbers:
            assert mask >> alphabet.encode(chr(0x400 + n))[0] & 1 >= n >> bit & 1, (bit, n)
    assert len({alphabet.encode(chr(0x400 + n)) for n in numbers}) < len(numbers)


# The database


KEYS = [(r"\bab+c\b", USUAL), (r"\d{3}-\d{4}", USUAL)]


def test_a_stored_database_finds_what_the_built_one_finds() -> None:
    built = Automaton.build(KEYS)
    loaded = Automaton.load(built.dump())
    assert loaded.known == built.known
    for text in ("an abbc, 555-1234 é", "nothing"):
        folded = built.alphabet.encode(text)
        assert loaded.alphabet.encode(text) == folded
        assert _ends(loaded, folded) == _ends(built, folded)


def test_what_needs_digits_has_a_database_of_its_own() -> None:
    keys = [(r"\d{3}-\d{4}", USUAL), (r"\d{4}|ab", USUAL), (r"(?:\d|[1-3]){2}x", USUAL)]
    known = Automaton.build(keys).known
    assert [known[key].digits for key in keys] == [7, 0, 2]
    databases = [known[key].database for key in keys]
    assert databases[0] == databases[2] != databases[1]
    assert Automaton.load(Automaton.build(keys).dump()).known == known


def test_the_fingerprint_tells_sets_of_expressions_apart() -> None:
    assert fingerprint(KEYS) == fingerprint(reversed(KEYS))
    assert len({fingerprint(k) for k in (KEYS, KEYS[:1], [(KEYS[0][0], 0), KEYS[1]])}) == 3


def test_what_hyperscan_refuses_even_coarsened_is_never_skipped() -> None:
    wide = "|".join(f"[{chr(0x61 + i % 26)}-z]{{1,30}}{i}q{{20,30}}" for i in range(1500))
    text = "zz7" + "q" * 25
    automaton = Automaton.build([(wide, 0), (r"\d\d", 0)])
    assert (r"\d\d", 0) in automaton.known
    assert (wide, 0) not in automaton.known
    recognizer = PatternRecognizer("W", patterns=[Pattern("w", wide, 0.5)], global_regex_flags=0)
    engine = PatternEngine(rig.engine_of(rig.registry_of(recognizer)), BlobStore(None))
    assert engine.wait(60)
    assert rig.found(engine, text) == rig.findings(engine.presidio.analyze(text, "en"))


def test_only_the_longest_are_tried_alone_until_hyperscan_takes_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide = "|".join(f"[{chr(0x61 + i % 26)}-z]{{1,30}}{i}q{{20,30}}" for i in range(1500))
    compiled = _counted(monkeypatch)
    keys = [(f"{n}x", 0) for n in range(40)]
    assert Automaton.build([(wide, 0), *keys]).known.keys() == set(keys)
    assert compiled == [41, 1, 1, 1, 40]


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many expressions are compiled together, each time."""
    compiled: list[int] = []
    compile_these = automaton._compile

    def counted(expressions: Sequence[Any], first_id: int) -> Any:
        compiled.append(len(expressions))
        return compile_these(expressions, first_id)

    monkeypatch.setattr(automaton, "_compile", counted)
    return compiled


def test_only_what_is_added_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiled = _counted(monkeypatch)
    text = "an abbc, 555-1234, a Miller, 7-7"
    found = []
    for more in ([], [(r"\bmiller\b", USUAL)], [("Mil+er", 0), (r"\d-\d", 0)]):
        gate = PatternGate(BlobStore(tmp_path))
        gate.want([*KEYS, *more])
        assert gate.wait(60)
        assert gate.automaton is not None
        assert gate.automaton.known.keys() == {*KEYS, *more}
        found.append(sorted(_ends(gate.automaton, gate.automaton.alphabet.encode(text))))
    assert compiled == [1, 1, 1, 1, 1]
    assert found == [[8, 17], [8, 17, 28], [8, 14, 17, 27, 32]]


@pytest.mark.parametrize(
    "base",
    [[*KEYS, ("another", 0)], [KEYS[0]], KEYS],
    ids=["it has more", "of other classes of characters", "of more databases than two"],
)
def test_what_is_no_part_of_it_is_not_used(
    base: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bases = [Automaton.build(base)]
    if base == KEYS:
        bases = [Automaton.build([*KEYS, ("more", 0)], bases)]
    compiled = _counted(monkeypatch)
    added = [("more", 0), ("[\u0400-\u04ff]", 0)] if base == [KEYS[0]] else [("more", 0), ("z", 0)]
    assert Automaton.build([*KEYS, *added], bases).known.keys() == {*KEYS, *added}
    assert sum(compiled) == 4


def test_while_nothing_is_built_everything_runs(tmp_path: Path) -> None:
    presidio = rig.engine_of(
        rig.registry_of(PhoneRecognizer(), PatternRecognizer("D", deny_list=["x"]))
    )
    engine = PatternEngine(presidio, BlobStore(tmp_path))
    first = rig.found(engine, "x (212) 555-0123")  # whether or not the builder was quicker
    assert engine.wait(60)
    assert engine.gated
    assert first == rig.found(engine, "x (212) 555-0123")
    assert len(first) == 2


def test_the_next_start_finds_the_database_on_the_disk(tmp_path: Path) -> None:
    first = PatternGate(BlobStore(tmp_path))
    first.want(KEYS)
    assert first.wait(60)
    second = PatternGate(BlobStore(tmp_path))
    second.want(KEYS)
    assert second.automaton is not None  # without a thread having run
    assert second.automaton.known == (first.automaton or second.automaton).known


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: file.write_bytes(b"\0" * 4096),
        lambda file: file.write_bytes(b""),
        lambda file: file.chmod(0o666),
        lambda file: file.parent.chmod(0o777),
        lambda file: (file.rename(file.with_name("x")), file.symlink_to(file.with_name("x"))),
    ],
    ids=["cut", "nonsense", "empty", "others may write it", "others may swap it", "a link"],
)
def test_a_file_that_others_could_have_changed_is_built_again(tmp_path: Path, spoil: Any) -> None:
    directory = tmp_path / "cache"
    gate = PatternGate(BlobStore(directory))
    gate.want(KEYS)
    assert gate.wait(60)
    file = directory / fingerprint(KEYS)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    spoil(file)
    assert BlobStore(directory).read(file.name) is None
    again = PatternGate(BlobStore(directory))
    again.want(KEYS)
    assert again.wait(60)
    assert again.automaton is not None


def test_a_file_under_another_name_is_not_taken_for_it(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "cache")
    assert store.write("one", b"content")
    (tmp_path / "cache" / "one").rename(tmp_path / "cache" / "two")
    assert store.read("two") is None


def test_old_files_go(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "cache")
    for at in range(40):
        store.write(f"f{at}", b"x")
    assert len(list((tmp_path / "cache").iterdir())) <= 16
    assert store.read("f39") == b"x"


def test_the_store_is_where_the_user_keeps_caches(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert BlobStore.for_user().write("a", b"b")
    assert (tmp_path / "spillway" / "patterns" / "a").exists()
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the specification: ignore it
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert BlobStore.for_user().write("a", b"b")
    assert (tmp_path / "home" / ".cache" / "spillway" / "patterns" / "a").exists()


def test_a_store_that_cannot_write_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    gate = PatternGate(BlobStore(tmp_path / "file" / "below"))
    gate.want(KEYS)
    assert gate.wait(60)
    assert gate.automaton is not None


def test_threads_scan_with_scratches_of_their_own() -> None:
    from concurrent.futures import ThreadPoolExecutor

    engine = rig.patterns_over(rig.default_engine("en"))
    texts = [rig.generated(seed, 20) for seed in range(40)]
    expected = [rig.found(engine, text) for text in texts]
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda text: rig.found(engine, text), texts * 3)
    assert list(found) == expected * 3


def test_an_exception_in_a_scan_leaves_the_next_one_whole() -> None:
    automaton = Automaton.build(KEYS)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        automaton.scan(b"555-1234", [0, 1], interrupted)
    assert _ends(automaton, b"555-1234") == [8]


def test_hyperscan_reports_each_end_of_a_match() -> None:
    """What the finder's regions rest on."""
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=[b"ab{1,3}"], ids=[0], flags=[0])
    ends: list[int] = []
    database.scan(
        b"abbbb ab",
        match_event_handler=lambda _, __, end, ___, ____: ends.append(end),
        scratch=hyperscan.Scratch(database),
    )
    assert ends == [2, 3, 4, 8]
