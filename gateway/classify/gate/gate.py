"""One scan for whatever could restrict, and a second look at what often turns out harmless."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import hyperscan

from gateway.classify import decoding, folding, numbers
from gateway.classify.gate import necessary, triggers
from gateway.classify.gate.database import Database, Hits, Sought
from gateway.classify.gate.needs import Need, Needs
from gateway.classify.gate.triggers import DIGITS, Look, Trigger
from gateway.classify.patterns.alphabet import Alphabet, CharSet
from gateway.classify.patterns.syntax import Node, NotUnderstood, char_sets, parse

MOST_FOLDED = 16_384
"""Characters. Folding a longer text takes too long to do it here."""
_LONGEST_RUN = 2048
_TOGETHER = 40
"""Expressions in one database: compiling grows faster than their number, and scanning costs half a
microsecond for each database."""
_DOTALL, _CASELESS = 16, 2  # flags of re and regex
_LIST_CHARS = triggers.LIST_GAP_CHARS + "0123456789"


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a gate asks, in the order in which it asks."""

    alphabet: Alphabet
    ascii: Database  # the triggers that can match in ASCII text
    beyond: Database  # all triggers
    own: tuple[Database, ...]  # expressions of recognizers that no trigger stands for
    numbers: tuple[Database, ...]  # expressions that need a number, asked where there is one
    lists: Database  # numbers as numbers.py puts them together
    phones: bool  # whether any number may be one of phonenumbers'


class Gate:
    """`clear(text)` is true only if no scan of it could find anything that restricts."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self._looks = (
            tuple(t.look for t in triggers.in_ascii()),
            tuple(t.look for t in triggers.all_of_them()),
        )

    @classmethod
    def of(cls, needs: Needs) -> Gate | None:
        """None when something is needed that nothing is known of: then every text must be scanned.
        Takes seconds."""
        if needs.unknown:
            return None
        try:
            return cls(_compile(needs))
        except (NotUnderstood, hyperscan.error):
            return None

    def clear(self, text: str) -> bool:
        looks = self._look(text)
        if looks is None:
            return False
        if Look.FOLD not in looks:
            return True
        if len(text) > MOST_FOLDED:
            return False
        folded = folding.fold(text)
        return folded == text or self._look(folded) is not None

    def _look(self, text: str) -> set[Look] | None:
        """The kinds of triggers in it; None if it must be scanned."""
        asked = self.compiled
        beyond = not text.isascii()
        encoded = asked.alphabet.encode(text)
        hits = (asked.beyond if beyond else asked.ascii).scan(encoded)
        if hits is None:
            return None
        for database in asked.own:
            if database.scan(encoded) is None:
                return None
        if not hits:
            return set()
        kinds = self._looks[beyond]
        looks = {kinds[number] for number, _ in hits}
        if Look.RUN in looks and _says_something(text, _ends(hits, kinds)):
            return None
        if Look.NUMBER in looks and (asked.phones or self._is_number(text, encoded)):
            return None
        return looks

    def _is_number(self, text: str, encoded: bytes) -> bool:
        if any(database.scan(encoded) is None for database in self.compiled.numbers):
            return True
        hits = self.compiled.lists.scan(encoded)
        return hits is None or any(map(_is_regrouped, _parts(text, hits, _LIST_CHARS)))


def _compile(needs: Needs) -> Compiled:
    signs = [(t, _parsed(t)) for t in triggers.all_of_them()]
    own = [(need, parse(need.expression, need.flags)) for need in needs.needs]
    alphabet = Alphabet.of({found for _, node in (*signs, *own) for found in char_sets(node)})
    bytes_of = functools.cache(alphabet.bytes_of)
    return Compiled(
        alphabet,
        Database.of([_sign(t, n) for t, n in signs if not t.beyond_ascii], bytes_of),
        Database.of([_sign(t, n) for t, n in signs], bytes_of),
        _groups([_sought(need, n) for need, n in own if not _implied(n)], bytes_of),
        _groups([_sought(need, n) for need, n in own if _is_number(n)], bytes_of),
        Database.of(
            [Sought(t.name, n, each=True) for t, n in signs if t.name == triggers.LIST], bytes_of
        ),
        needs.phones,
    )


def _groups(sought: Sequence[Sought], bytes_of: Callable[[CharSet], int]) -> tuple[Database, ...]:
    groups = [sought[at : at + _TOGETHER] for at in range(0, len(sought), _TOGETHER)]
    return tuple(database for group in groups for database in _together(group, bytes_of))


def _together(group: Sequence[Sought], bytes_of: Callable[[CharSet], int]) -> Iterator[Database]:
    """Hyperscan refuses expressions of too many states; those are looked for more coarsely."""
    try:
        yield Database.of(group, bytes_of)
    except hyperscan.error:
        if len(group) == 1:
            yield Database.of([replace(group[0], node=necessary.coarse(group[0].node))], bytes_of)
            return
        smaller = [one for one in group if _compiles(one, bytes_of)]
        if len(smaller) == len(group):  # together too many
            half = len(group) // 2
            yield from _together(group[:half], bytes_of)
            yield from _together(group[half:], bytes_of)
            return
        yield from _together(smaller, bytes_of)
        for one in group:
            if one not in smaller:
                yield from _together([one], bytes_of)


def _compiles(sought: Sought, bytes_of: Callable[[CharSet], int]) -> bool:
    try:
        Database.of([sought], bytes_of)
    except hyperscan.error:
        return False
    return True


def _sign(trigger: Trigger, node: Node) -> Sought:
    return Sought(trigger.name, node, trigger.look is Look.FIRE, trigger.look is Look.RUN)


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


def _ends(hits: Hits, looks: Sequence[Look]) -> Hits:
    return [hit for hit in hits if looks[hit[0]] is Look.RUN]


def _parts(text: str, hits: Hits, chars: str) -> Iterator[str]:
    """The parts of `text` that consist of `chars` and that the hits end in, each once, with the
    characters beside them."""
    done = 0
    for _, end in sorted(hits, key=lambda hit: hit[1]):
        if end <= done:
            continue
        before = text[max(0, end - _LONGEST_RUN) : end]
        after = text[end : end + _LONGEST_RUN]
        start = end - (len(before) - len(before.rstrip(chars)))
        done = end + len(after) - len(after.lstrip(chars))
        yield text[max(0, start - 1) : done + 2]


def _says_something(text: str, hits: Hits) -> bool:
    return any(map(decoding.says_something, _parts(text, hits, triggers.RUN_CHARS)))


def _is_regrouped(part: str) -> bool:
    return (
        any(True for _ in numbers.cards(part))
        or any(True for _ in numbers.regrouped(part))
        or decoding.has_codes(part)
    )
