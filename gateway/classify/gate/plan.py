"""What a gate asks a text, made from what a scanner needs: signs, and the questions behind them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import hyperscan

from gateway.classify.gate import necessary, triggers
from gateway.classify.gate.confirmation import Confirmation
from gateway.classify.gate.database import (
    A_DIGIT,
    A_LIST,
    DatabaseExpression,
    PatternDatabase,
    Signs,
)
from gateway.classify.gate.needs import ExpressionNeed, Needs
from gateway.classify.gate.triggers import (
    CHARACTERS,
    DIGIT_RUNS,
    DIGITS,
    RUNS,
    WORDS,
    Trigger,
    TriggerCheck,
)
from gateway.classify.patterns.alphabet import Alphabet, CharSet
from gateway.classify.patterns.syntax import Node, char_sets, parse

_TOGETHER = 40
"""Expressions in one database: compiling grows faster than their number, and scanning costs half a
microsecond for each database."""
_FAMILIES = frozenset({"StreetAddress"})
"""Recognizers with many long expressions, which Hyperscan does not take together with others."""
_NEAR, _NEAR_NUMBER = 64, 256
"""Characters round a sign, and round a number, in which what it stands for is looked for alone."""
_FEW_BRANCHES = 12
"""Alternatives of an expression that begins with a digit, with which it is a small automaton."""
_DOTALL, _CASELESS = 16, 2  # flags of re and regex
_ASCII = (1 << 128) - 1
"""The bytes that a text of ASCII is made of."""
BytesFor = Callable[[CharSet], int]


@dataclass(frozen=True, slots=True)
class TriggerExpressions:
    """Expressions to look for where there is a sign of them, and what a hit of each asks for.
    Without databases the sign says it all. `around`: the characters before and behind the end of a
    sign in which all matches stand that it is a sign of; 0 is the whole text."""

    databases: tuple[PatternDatabase, ...]
    checks: tuple[int, ...]  # of TriggerCheck
    around: int = 0
    confirmations: Mapping[int, Confirmation] = field(default_factory=dict)
    """By the place of the expression whose matches they confirm."""


@dataclass(frozen=True, slots=True)
class Compiled:
    alphabet: Alphabet
    ascii: Signs  # that can stand in ASCII text
    beyond: Signs  # all
    questions: tuple[TriggerExpressions, ...]


@dataclass(frozen=True, slots=True)
class _SignGroup:
    """Expressions with the same signs."""

    signs: tuple[Node, ...]
    sought: tuple[tuple[DatabaseExpression, TriggerCheck], ...]
    confirmations: Mapping[int, Confirmation]  # by the place in `sought`
    family: str  # signs of one are looked for in one database
    farthest: int = 0  # characters, up to which matches are looked for near their sign

    @property
    def around(self) -> int:
        """As of the question; 0 where a match may reach farther than it is to be looked for."""
        around = max(necessary.around(sought.node) for sought, _ in self.sought)
        return int(around) if around <= self.farthest and not self.settled else 0

    @property
    def settled(self) -> bool:
        """Whether a sign of them says it all."""
        if self.confirmations:
            return False
        return all(self.signs == (sought.node,) and not sought.each for sought, _ in self.sought)

    @property
    def stops(self) -> bool:
        return self.settled and all(check is TriggerCheck.FIRE for _, check in self.sought)

    @property
    def numbered(self) -> bool:
        """Whether none of them matches without a digit."""
        return all(necessary.needs_digit(sought.node) for sought, _ in self.sought)


def compiled(needs: Needs) -> Compiled:
    """Raises NotUnderstood and hyperscan.error."""
    listed = triggers.all_triggers()
    own = [
        (need, parse(need.expression, need.flags))
        for need in {(n.expression, n.flags, n.words): n for n in needs.needs}.values()
    ]
    lists = [t for t in listed if t.check is TriggerCheck.NUMBER and t.name != triggers.NUMBER]
    groups = [
        *_trigger_groups(t for t in listed if t.check is not TriggerCheck.NUMBER),
        *_number_groups([(n, node) for n, node in own if _is_number(n, node)]),
        *_need_groups([(n, node) for n, node in own if not _is_number(n, node)]),
    ]
    others = [*(node for _, node in own), *map(_parsed, lists)]
    alphabet = Alphabet.from_sets(
        {chars for node in (*_nodes(groups), *others) for chars in char_sets(node)}
    )
    class_bytes = functools.cache(alphabet.class_bytes)
    in_ascii, beyond = _signs(groups, lists, class_bytes)
    return Compiled(
        alphabet,
        in_ascii,
        beyond,
        tuple(_question(one, class_bytes) for one in groups),
    )


def _nodes(groups: Iterable[_SignGroup]) -> Iterator[Node]:
    for one in groups:
        yield from one.signs
        yield from (sought.node for sought, _ in one.sought)


def _trigger_groups(listed: Iterable[Trigger]) -> Iterator[_SignGroup]:
    together: dict[tuple[str, ...], list[Trigger]] = {}
    for trigger in listed:
        together.setdefault(trigger.signs or (trigger.expression,), []).append(trigger)
    for expressions, own in together.items():
        flags = _DOTALL | (_CASELESS if own[0].caseless else 0)
        yield _SignGroup(
            tuple(parse(expression, flags) for expression in expressions),
            tuple((_sign(trigger), trigger.check) for trigger in own),
            {},
            own[0].family,
        )


def _number_groups(own: Sequence[tuple[ExpressionNeed, Node]]) -> Iterator[_SignGroup]:
    if own:
        sign = next(t for t in triggers.all_triggers() if t.name == triggers.NUMBER)
        yield _group(_parsed(sign), own, sign.family, _NEAR_NUMBER)


def _need_groups(own: Iterable[tuple[ExpressionNeed, Node]]) -> Iterator[_SignGroup]:
    same_sign: dict[tuple[str, int], list[tuple[ExpressionNeed, Node]]] = {}
    for need, node in own:
        if necessary.requires(node, "@"):
            same_sign.setdefault(("@", 0), []).append((need, node))
        elif need.sign:
            same_sign.setdefault((need.sign, need.flags), []).append((need, node))
        else:
            sign = node if need.words else necessary.telling(node)
            yield _group(sign, [(need, node)], _family(need, sign))
    for (written, flags), together in same_sign.items():
        sign = parse(written, flags)
        begins = necessary.starts_with_mark(sign) or necessary.starts_with_words(sign)
        yield _group(sign, together, WORDS if begins else _run_family(sign), _NEAR)


def _group(
    sign: Node, own: Sequence[tuple[ExpressionNeed, Node]], family: str, farthest: int = 0
) -> _SignGroup:
    confirmations = {
        at: Confirmation(need.recognizer, need.confirmed, need.flags)
        for at, (need, _) in enumerate(own)
        if need.confirmed
    }
    sought = tuple(
        (_sought(need, node), TriggerCheck.CONFIRM if at in confirmations else TriggerCheck.FIRE)
        for at, (need, node) in enumerate(own)
    )
    return _SignGroup((sign,), sought, confirmations, family, farthest)


def _family(need: ExpressionNeed, sign: Node) -> str:
    if necessary.starts_with_digit(sign) or necessary.starts_with_pairs(sign):
        return _run_family(sign)
    return need.recognizer if need.recognizer in _FAMILIES else WORDS


def _run_family(sign: Node) -> str:
    few = necessary.starts_with_digit(sign) and necessary.branches(sign) <= _FEW_BRANCHES
    return DIGIT_RUNS if few else RUNS


@dataclass(frozen=True, slots=True)
class _Sign:
    """`number`: what it is reported with. `asks`: as in `Signs`."""

    number: int
    asks: int
    family: str
    numbered: bool
    sought: DatabaseExpression


def _signs(
    groups: Sequence[_SignGroup], lists: Iterable[Trigger], class_bytes: BytesFor
) -> tuple[Signs, Signs]:
    """Of ASCII text, and of any, with one numbering. What needs no digit is looked for in nearly
    every text, and has databases of its own for ASCII: of characters beyond it that are the same
    but for their case, and of words in other scripts, Hyperscan makes many strings to look for.
    The others are the same databases."""
    signs: list[_Sign] = []
    for at, one in enumerate(groups):
        for node in one.signs:
            sought = DatabaseExpression("sign", node, one.stops, each=one.around > 0)
            signs.append(_Sign(len(signs), at, one.family, one.numbered, sought))
    digit = DatabaseExpression("digit", parse(r"\d", 0))
    signs.append(_Sign(len(signs), A_DIGIT, CHARACTERS, False, digit))
    for trigger in lists:
        sought = DatabaseExpression(trigger.name, _parsed(trigger), each=True)
        signs.append(_Sign(len(signs), A_LIST, trigger.family, True, sought))
    asks = tuple(sign.asks for sign in signs)
    near = frozenset(at for at, one in enumerate(groups) if one.around)
    beyond = _by_family([sign for sign in signs if not sign.numbered], class_bytes)
    ascii_ = _by_family(
        list(_in_ascii(signs, class_bytes)), lambda chars: class_bytes(chars) & _ASCII
    )
    numbered = _by_family([sign for sign in signs if sign.numbered], class_bytes)
    return Signs(ascii_, numbered, asks, near), Signs(beyond, numbered, asks, near)


def _in_ascii(signs: Iterable[_Sign], class_bytes: BytesFor) -> Iterator[_Sign]:
    """Those without a digit that can stand in ASCII text, as far as they can."""
    for sign in signs:
        if sign.numbered:
            continue
        node = necessary.among(sign.sought.node, lambda chars: bool(class_bytes(chars) & _ASCII))
        if node is not None:
            yield replace(sign, sought=replace(sign.sought, node=node))


def _by_family(signs: Sequence[_Sign], class_bytes: BytesFor) -> tuple[PatternDatabase, ...]:
    databases: list[PatternDatabase] = []
    for family in dict.fromkeys(sign.family for sign in signs):
        own = [(sign.number, sign.sought) for sign in signs if sign.family == family]
        for group in [[one] for one in own] if family == RUNS else [own]:
            databases += _together(group, class_bytes)
    return tuple(databases)


def _question(one: _SignGroup, class_bytes: BytesFor) -> TriggerExpressions:
    checks = tuple(check.value for _, check in one.sought)
    if one.settled:
        return TriggerExpressions((), checks)
    databases = _groups([sought for sought, _ in one.sought], class_bytes)
    return TriggerExpressions(databases, checks, one.around, one.confirmations)


def _groups(
    sought: Sequence[DatabaseExpression], class_bytes: BytesFor
) -> tuple[PatternDatabase, ...]:
    """In one database, or those with the same beginnings in one: digits, words, others."""
    kinds: dict[str, list[tuple[int, DatabaseExpression]]] = {}
    for number, one in enumerate(sought):
        kind = _begins_with(one.node) if len(sought) > _TOGETHER else ""
        kinds.setdefault(kind, []).append((number, one))
    groups = [
        own[at : at + _TOGETHER] for own in kinds.values() for at in range(0, len(own), _TOGETHER)
    ]
    return tuple(database for group in groups for database in _together(group, class_bytes))


def _begins_with(node: Node) -> str:
    if necessary.starts_with_digit(node):
        return DIGIT_RUNS
    return WORDS if necessary.starts_with_words(node) else RUNS


def _together(
    group: Sequence[tuple[int, DatabaseExpression]], class_bytes: BytesFor
) -> Iterator[PatternDatabase]:
    """Hyperscan refuses expressions of too many states; those are looked for more coarsely."""
    try:
        yield _database(group, class_bytes)
    except hyperscan.error:
        if len(group) == 1:
            number, sought = group[0]
            coarse = replace(sought, node=necessary.coarse(sought.node))
            yield _database([(number, coarse)], class_bytes)
            return
        smaller = [one for one in group if _compiles(one, class_bytes)]
        if len(smaller) == len(group):  # together too many
            half = len(group) // 2
            yield from _together(group[:half], class_bytes)
            yield from _together(group[half:], class_bytes)
            return
        yield from _together(smaller, class_bytes)
        for refused in group:
            if refused not in smaller:
                yield from _together([refused], class_bytes)


def _compiles(one: tuple[int, DatabaseExpression], class_bytes: BytesFor) -> bool:
    try:
        _database([one], class_bytes)
    except hyperscan.error:
        return False
    return True


def _database(
    group: Sequence[tuple[int, DatabaseExpression]], class_bytes: BytesFor
) -> PatternDatabase:
    return PatternDatabase.compile(
        [one for _, one in group], class_bytes, [number for number, _ in group]
    )


def _sign(trigger: Trigger) -> DatabaseExpression:
    check = trigger.check
    return DatabaseExpression(
        trigger.name, _parsed(trigger), check is TriggerCheck.FIRE, check is TriggerCheck.RUN
    )


def _parsed(trigger: Trigger) -> Node:
    return parse(trigger.expression, _DOTALL | (_CASELESS if trigger.caseless else 0))


def _is_number(need: ExpressionNeed, node: Node) -> bool:
    """Whether it is looked for round numbers alone."""
    if need.words or necessary.around(node) > _NEAR_NUMBER:
        return False
    return necessary.digit_run(node) >= DIGITS and not necessary.requires(node, "@")


def _sought(need: ExpressionNeed, node: Node) -> DatabaseExpression:
    wanted = necessary.near_words(need.words, node) if need.words else node
    return DatabaseExpression(need.recognizer, wanted, stops=not need.confirmed)
