"""A sign stands wherever its expression matches: the gate asks for the expression nowhere else."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator

import pytest
import regex

from gateway.classify.gate import necessary, plan, triggers
from gateway.classify.gate.armed import dump, load
from gateway.classify.gate.database import DatabaseExpression, PatternDatabase, Signs, scan_all
from gateway.classify.gate.gate import Gate, near
from gateway.classify.gate.needs import ExpressionNeed, Needs
from gateway.classify.gate.recognized import IBAN, SIGNS
from gateway.classify.gate.triggers import DIGITS
from gateway.classify.patterns.alphabet import Alphabet
from gateway.classify.patterns.superset import Superset
from gateway.classify.patterns.syntax import Alt, Chars, Node, Repeat, Seq, char_sets, extent, parse
from gateway.classify.scanner.recognizers import PresidioScanner

_FLAGS = 26  # as Presidio compiles
_TRIES = 10
_PLENTY = "".join(map(chr, range(9, 0x250))) + "\u0660\u2013\uff11\u0430\u03bf\u0301"


def written(node: Node, rng: random.Random, more: int = 3) -> str:
    """A text that the expression matches, conditions on neighbours apart, with so many repetitions
    more than there must be, at most."""
    match node:
        case Chars(found):
            return rng.choice(_members(found))
        case Seq(parts):
            return "".join(written(part, rng, more) for part in parts)
        case Alt(branches):
            return written(rng.choice(branches), rng, more)
        case Repeat(inner, least, most):
            times = rng.randint(least, int(min(most, least + more)))
            return "".join(written(inner, rng, more) for _ in range(times))
    return ""


@functools.cache
def _members(found: object) -> str:
    assert hasattr(found, "compiled")
    one = found.compiled().match
    return "".join(c for c in _PLENTY if one(c)) or "a"


def _asked(needs: Needs) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """Each expression with its signs."""
    own = [(need, parse(need.expression, need.flags)) for need in needs.needs]
    listed = (
        *plan._trigger_groups(triggers.all_triggers()),
        *plan._number_groups([(n, node) for n, node in own if plan._is_number(n, node)]),
        *plan._need_groups([(n, node) for n, node in own if not plan._is_number(n, node)]),
    )
    for one in listed:
        for sought, _ in one.sought:
            yield sought.node, one.signs


def test_what_an_expression_matches_shows_a_sign_of_it(scanner: PresidioScanner) -> None:
    rng = random.Random(1)
    asked = list(_asked(scanner.needs()))
    assert len(asked) > 80
    alphabet = Alphabet.from_sets(
        {f for n, signs in asked for s in (n, *signs) for f in char_sets(s)}
    )
    bytes_of = functools.cache(alphabet.class_bytes)
    unseen = []
    for node, signs in asked:
        if signs == (node,):
            continue
        shown = [_bytes(sign, bytes_of) for sign in signs]
        exact = _bytes(node, bytes_of)
        for _ in range(_TRIES):
            text = alphabet.encode(f" {written(node, rng)} ")
            if exact.search(text) and not any(sign.search(text) for sign in shown):
                unseen.append(text)
    assert unseen == []


def _bytes(node: Node, bytes_of: object) -> regex.Pattern[bytes]:
    """As Hyperscan gets it."""
    expression = Superset.compile(node, bytes_of)  # type: ignore[arg-type]
    flags = regex.DOTALL | (regex.IGNORECASE if expression.caseless else 0)
    return regex.compile(expression.text.replace(r"\z", r"\Z").encode("ascii"), flags)


def test_what_is_left_in_ascii_matches_the_same_of_it(scanner: PresidioScanner) -> None:
    """The databases of ASCII text have nothing else in them."""
    rng = random.Random(2)
    signs = {repr(s): s for _, signs in _asked(scanner.needs()) for s in signs}
    alphabet = Alphabet.from_sets({found for sign in signs.values() for found in char_sets(sign)})
    bytes_of = functools.cache(alphabet.class_bytes)
    ascii_ = functools.cache(lambda found: alphabet.class_bytes(found) & plan._ASCII)
    able = 0
    for sign in signs.values():
        whole = _bytes(sign, bytes_of)
        node = necessary.among(sign, lambda found: bool(ascii_(found)))
        left = None if node is None else _bytes(node, ascii_)
        able += left is not None
        for _ in range(_TRIES):
            text = f" {written(sign, rng)} ".encode("ascii", rng.choice(("ignore", "replace")))
            found = None if left is None else left.search(text)
            expected = whole.search(text)
            assert (expected and expected.span()) == (found and found.span()), text
    assert 80 < able < len(signs)


@pytest.mark.parametrize(
    ("expression", "left"),
    [
        ("ab", None),
        ("a(?=b)", None),
        ("(?:b|c)", None),
        ("b{2}", None),
        ("a(?!b)", "a"),
        ("a(?<!b)b?a", "aa"),
        ("a(?:a|ab)b{0,3}", "aa"),
        ("(?:a|b|ca)a(?!a)", "aa(?!a)"),
    ],
)
def test_what_is_left_of_an_expression_where_only_an_a_is_possible(
    expression: str, left: str | None
) -> None:
    node = necessary.among(
        parse(expression, 0), lambda found: found.compiled().match("a") is not None
    )
    assert (None if node is None else _written(node)) == (left and _written(parse(left, 0)))


def _written(node: Node) -> str:
    """Without groups of one."""
    alphabet = Alphabet.from_sets(set(char_sets(node)))
    return Superset.compile(node, alphabet.class_bytes).text.replace("(?:a)", "a")


def test_every_sign_given_by_hand_is_in_use(scanner: PresidioScanner) -> None:
    assert {n.expression for n in scanner.needs().needs if n.sign} == set(SIGNS)


@pytest.mark.parametrize(
    ("expression", "left"),
    [
        (r"\d{3}-\d\d", r"\d{3}-\d\d"),  # it starts with a digit already
        (r"(?<!x)\d{3}-\d\d", r"(?<!x)\d{3}-\d\d"),
        (r"[A-Z]\w{0,30} (?:road|lane) \d{1,3}", r"(?:road|lane) \d{1,3}"),
        (r"(?i)[^x]{9}[Pp](?:an|ermit) \d{5}", r"(?i)[Pp](?:an|ermit) \d{5}"),  # else "an" is one
        (r"\d [^\d]{0,50}\b(?:NY|CA) \d{5}", r"(?:NY|CA) \d{5}"),  # behind a gap
        (r"[A-Z]{3}\d", r"[A-Z]{3}\d"),  # too little would be left
        (r"[a-z]?(?:x|yy)[a-z]{9}", r"[a-z]?(?:x|yy)[a-z]{9}"),  # one letter is in any text
    ],
)
def test_what_is_left_of_an_expression_as_its_sign(expression: str, left: str) -> None:
    found, wanted = (parse(e, 0) for e in (expression, left))
    assert repr(necessary.telling(found)) == repr(wanted)


@pytest.mark.parametrize(
    ("expression", "needed"),
    [
        (r"[A-Z]{3}\d", True),
        (r"(?=[A-Z ]{6,18}\d)[A-Z\d]{16}", True),
        (r"(?<=[0-9])x", True),
        (r"a\d|\db", True),
        (r"(?:ab\d){1,2}", True),
        (r"a\d|b", False),
        (r"(?:\d){0,2}a", False),
        (r"a(?!\d)", False),
        (r"[a-z\d]", False),
    ],
)
def test_whether_an_expression_needs_a_digit(expression: str, needed: bool) -> None:
    assert necessary.needs_digit(parse(expression, _FLAGS)) is needed


def test_what_a_digit_stands_for_may_follow_conditions_alone() -> None:
    assert necessary.starts_with_digit(parse(r"(?<![a-z])(?:(?!19)|(?<=x))\d{1,3}", _FLAGS))
    assert not necessary.starts_with_digit(parse(r"-?\d", _FLAGS))
    assert not necessary.starts_with_digit(parse(r"\d|x", _FLAGS))


@pytest.fixture(scope="module")
def few() -> plan.Compiled:
    """Besides the triggers: an expression, one behind a sign, one that needs a digit, and numbers
    of each length, told apart by the letter behind them."""
    return plan.compiled(
        Needs(
            (
                ExpressionNeed("A", "abc", _FLAGS),
                ExpressionNeed("B", r"\d+abd", _FLAGS, sign=r"\dab"),
                ExpressionNeed("C", r"abe\d", _FLAGS),
                *(
                    ExpressionNeed("D", rf"x?\d(?:\W?\d){{{n - 1}}}{_LETTERS[n]}", _FLAGS)
                    for n in _LENGTHS
                ),
            )
        )
    )


_LENGTHS = range(DIGITS, 14)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def asked(signs: Signs, encoded: bytes) -> set[int] | None:
    found = signs.find(encoded)
    return None if found is None else found.questions | set(found.near)


def test_a_settled_sign_stops_and_others_ask(few: plan.Compiled) -> None:
    seen = few.alphabet.encode
    assert asked(few.ascii, seen("x abc")) is None
    found = asked(few.ascii, seen("x 1ab"))
    assert found is not None
    assert [few.questions[at].databases[0].scan(seen("1abd")) for at in found] == [None]


def test_a_database_of_ascii_text_and_of_any_is_in_memory_once(few: plan.Compiled) -> None:
    kept = load(dump(Gate(few))).compiled
    assert few.ascii.numbered
    for compiled in (few, kept):
        for one, other in zip(compiled.ascii.numbered, compiled.beyond.numbered, strict=True):
            assert one is other
    assert asked(kept.ascii, kept.alphabet.encode("x abc")) is None
    assert asked(kept.beyond, kept.alphabet.encode("x 1ab")) == asked(few.beyond, b"x 1ab")


def test_what_needs_a_digit_is_looked_for_only_where_there_is_one(few: plan.Compiled) -> None:
    seen = few.alphabet.encode
    assert scan_all(few.ascii.numbered, seen("abe1")) is None
    assert asked(few.ascii, seen("abe1")) is None
    assert scan_all(few.ascii.plain, seen("abe")) == []
    assert asked(few.ascii, seen("abe")) == set()


def test_a_number_is_looked_for_from_its_least_digits_on(few: plan.Compiled) -> None:
    gate = Gate(few)
    for digits in _LENGTHS:
        numbers = [gap.join("7" * digits) for gap in ("", " ", "-", "\n", "~")]
        sent = [not gate.clear(f"it is {number}{_LETTERS[digits]} then") for number in numbers]
        assert all(sent), digits
        assert gate.clear(f"it is {'7' * (digits - 1)}{_LETTERS[digits]} then"), digits


_MORE = 120  # characters between a label and its number, at most


def test_near_a_sign_stands_what_stands_in_the_whole_text(scanner: PresidioScanner) -> None:
    """What is asked near its signs alone is found wherever it would be found by asking all of a
    text, however far a label stands from its number."""
    rng = random.Random(3)
    own = [(need, parse(need.expression, need.flags)) for need in scanner.needs().needs]
    numbers = [node for need, node in own if plan._is_number(need, node)][::4]
    nodes = [*numbers, *(node for need, node in own if need.expression == IBAN)]
    wanted = Needs(tuple(need for need, node in own if node in nodes))
    compiled = plan.compiled(wanted)
    near_ones = [(at, q) for at, q in enumerate(compiled.questions) if q.around]
    assert len(near_ones) == 2
    matches = 0
    for node in nodes:
        at, question = near_ones[node not in numbers]
        for more in (3, _MORE) * _TRIES:
            before, behind = (_FILLER[: rng.randrange(len(_FILLER))] for _ in range(2))
            encoded = compiled.alphabet.encode(f"{before} {written(node, rng, more)} {behind}")
            signs = compiled.beyond.find(encoded)
            whole = scan_all(question.databases, encoded) is None
            if signs is not None:
                windows = near(encoded, signs.near.get(at, [0]), question.around)
                assert whole == any(scan_all(question.databases, w) is None for w in windows)
                matches += whole
    assert matches > 5 * len(nodes)


_FILLER = "In 2023, five of 12 teams met; " * 20


def test_databases_report_the_numbers_they_are_given() -> None:
    node = parse("a", 0)
    alphabet = Alphabet.from_sets(set(char_sets(node)))
    database = PatternDatabase.compile([DatabaseExpression("a", node)], alphabet.class_bytes, [7])
    assert database.scan(b"xa") == [(7, 2)]
    assert extent(node).least == 1
