"""What a gate asks a text, made from what a scanner needs: signs, and the questions behind them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import hyperscan

from gateway.classify.gate import necessary, triggers
from gateway.classify.gate.database import Database, Hits, Sought, scan_all
from gateway.classify.gate.needs import Need, Needs
from gateway.classify.gate.triggers import DIGITS, MARKS, Look, Trigger
from gateway.classify.patterns.alphabet import Alphabet, CharSet
from gateway.classify.patterns.syntax import Node, char_sets, parse

_TOGETHER = 40
"""Expressions in one database: compiling grows faster than their number, and scanning costs half a
microsecond for each database."""
_FAMILIES = frozenset({"Secret", "StreetAddress"})
"""Recognizers with many expressions. Hyperscan looks for a few dozen that are alike in less time
than for the same among others (measured November 2026)."""
_DOTALL, _CASELESS = 16, 2  # flags of re and regex
BytesOf = Callable[[CharSet], int]


@dataclass(frozen=True, slots=True)
class Question:
    """Expressions to look for where there is a sign of them, and what a hit of each asks for."""

    databases: tuple[Database, ...]
    looks: tuple[Look, ...]


@dataclass(frozen=True, slots=True)
class Signs:
    """What is looked for first. `asks` has, for each sign, the number of its question."""

    databases: tuple[Database, ...]
    asks: tuple[int, ...]

    def scan(self, encoded: bytes) -> Hits | None:
        return scan_all(self.databases, encoded)

    def asked(self, hits: Hits) -> set[int]:
        return {self.asks[number] for number, _ in hits}


@dataclass(frozen=True, slots=True)
class Compiled:
    alphabet: Alphabet
    ascii: Signs  # that can stand in ASCII text
    beyond: Signs  # all
    questions: tuple[Question, ...]
    numbers: tuple[Database, ...]  # expressions that need a number, asked where there is one
    lists: Database  # numbers as numbers.py puts them together
    phones: bool  # whether any number may be one of phonenumbers'


@dataclass(frozen=True, slots=True)
class _Asked:
    """Expressions with the same signs."""

    signs: tuple[Node, ...]
    sought: tuple[tuple[Sought, Look], ...]
    family: str  # signs of one are looked for in one database
    beyond_ascii: bool = False

    @property
    def settled(self) -> bool:
        """Whether a sign of them says it all."""
        return all(
            look is Look.FIRE and self.signs == (sought.node,) for sought, look in self.sought
        )


def compiled(needs: Needs) -> Compiled:
    """Raises NotUnderstood and hyperscan.error."""
    listed = triggers.all_of_them()
    own = [
        (need, parse(need.expression, need.flags))
        for need in {(n.expression, n.flags, n.words): n for n in needs.needs}.values()
    ]
    wanted = [(_sought(need, node), need, node) for need, node in own if not _implied(node)]
    asked = [*_of_triggers(listed), *_of_needs(wanted)]
    others = [node for _, node in own]
    alphabet = Alphabet.of(
        {found for node in (*_nodes(asked), *others) for found in char_sets(node)}
    )
    bytes_of = functools.cache(alphabet.bytes_of)
    lists = [Sought(t.name, _parsed(t), each=True) for t in listed if t.name == triggers.LIST]
    return Compiled(
        alphabet,
        _signs([(at, one) for at, one in enumerate(asked) if not one.beyond_ascii], bytes_of),
        _signs(list(enumerate(asked)), bytes_of),
        tuple(_question(one, bytes_of) for one in asked),
        _groups([_sought(need, n) for need, n in own if _is_number(n)], bytes_of),
        Database.of(lists, bytes_of),
        needs.phones,
    )


def _nodes(asked: Iterable[_Asked]) -> Iterator[Node]:
    for one in asked:
        yield from one.signs
        yield from (sought.node for sought, _ in one.sought)


def _of_triggers(listed: Iterable[Trigger]) -> Iterator[_Asked]:
    together: dict[tuple[str, ...], list[Trigger]] = {}
    for trigger in listed:
        together.setdefault(trigger.signs or (trigger.expression,), []).append(trigger)
    for expressions, own in together.items():
        flags = _DOTALL | (_CASELESS if own[0].caseless else 0)
        yield _Asked(
            tuple(parse(expression, flags) for expression in expressions),
            tuple((_sign(trigger), trigger.look) for trigger in own),
            own[0].family,
            own[0].beyond_ascii,
        )


def _of_needs(wanted: Iterable[tuple[Sought, Need, Node]]) -> Iterator[_Asked]:
    """Those that start with a digit share the sign of a digit: in most text there is none, and
    where there is one, a second database is no dearer than theirs in the first."""
    numbered: dict[str, list[Sought]] = {}
    for sought, need, node in wanted:
        if need.sign:
            sign = parse(need.sign, need.flags)
            yield _Asked((sign,), ((sought, Look.FIRE),), need.recognizer)
            continue
        sign = sought.node if need.words else necessary.telling(node)
        if necessary.starts_with_digit(sought.node):
            numbered.setdefault(need.recognizer, []).append(sought)
        else:
            yield _Asked((sign,), ((sought, Look.FIRE),), _family(need, sign))
    digit = parse(r"\d", 0)
    for together in numbered.values():
        yield _Asked((digit,), tuple((sought, Look.FIRE) for sought in together), MARKS)


def _family(need: Need, sign: Node) -> str:
    if necessary.starts_with_digit(sign):
        return "numbered"
    return need.recognizer if need.recognizer in _FAMILIES else "others"


def _signs(asked: Sequence[tuple[int, _Asked]], bytes_of: BytesOf) -> Signs:
    flat = [
        (at, one.family, Sought("sign", node, stops=one.settled))
        for at, one in asked
        for node in one.signs
    ]
    databases: list[Database] = []
    for family in dict.fromkeys(family for _, family, _ in flat):
        group = [(n, sought) for n, (_, own, sought) in enumerate(flat) if own == family]
        databases += _together(group, bytes_of)
    return Signs(tuple(databases), tuple(at for at, _, _ in flat))


def _question(one: _Asked, bytes_of: BytesOf) -> Question:
    if one.settled:
        return Question((), ())
    databases = _groups([sought for sought, _ in one.sought], bytes_of)
    return Question(databases, tuple(look for _, look in one.sought))


def _groups(sought: Sequence[Sought], bytes_of: BytesOf) -> tuple[Database, ...]:
    numbered = list(enumerate(sought))
    groups = [numbered[at : at + _TOGETHER] for at in range(0, len(numbered), _TOGETHER)]
    return tuple(database for group in groups for database in _together(group, bytes_of))


def _together(group: Sequence[tuple[int, Sought]], bytes_of: BytesOf) -> Iterator[Database]:
    """Hyperscan refuses expressions of too many states; those are looked for more coarsely."""
    try:
        yield _database(group, bytes_of)
    except hyperscan.error:
        if len(group) == 1:
            number, sought = group[0]
            coarse = replace(sought, node=necessary.coarse(sought.node))
            yield _database([(number, coarse)], bytes_of)
            return
        smaller = [one for one in group if _compiles(one, bytes_of)]
        if len(smaller) == len(group):  # together too many
            half = len(group) // 2
            yield from _together(group[:half], bytes_of)
            yield from _together(group[half:], bytes_of)
            return
        yield from _together(smaller, bytes_of)
        for refused in group:
            if refused not in smaller:
                yield from _together([refused], bytes_of)


def _compiles(one: tuple[int, Sought], bytes_of: BytesOf) -> bool:
    try:
        _database([one], bytes_of)
    except hyperscan.error:
        return False
    return True


def _database(group: Sequence[tuple[int, Sought]], bytes_of: BytesOf) -> Database:
    return Database.of([one for _, one in group], bytes_of, [number for number, _ in group])


def _sign(trigger: Trigger) -> Sought:
    look = trigger.look
    return Sought(trigger.name, _parsed(trigger), look is Look.FIRE, look is Look.RUN)


def _parsed(trigger: Trigger) -> Node:
    return parse(trigger.expression, _DOTALL | (_CASELESS if trigger.caseless else 0))


def _implied(node: Node) -> bool:
    """Whether a trigger stands wherever this matches."""
    return necessary.requires(node, "@") or _is_number(node)


def _is_number(node: Node) -> bool:
    return necessary.digit_run(node) >= DIGITS and not necessary.requires(node, "@")


def _sought(need: Need, node: Node) -> Sought:
    wanted = necessary.beside_words(need.words, node) if need.words else node
    return Sought(need.recognizer, wanted, stops=True)
