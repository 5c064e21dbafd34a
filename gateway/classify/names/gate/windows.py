"""Where in a text a name that identifies somebody could stand, or an address."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.classify.conversations.memory import BETWEEN
from gateway.classify.names.gate.kinds import TOKEN, TokenKinds
from gateway.classify.names.gate.languages import may_be_foreign
from gateway.classify.names.model.languages import Languages, foreign_script
from gateway.classify.names.model.lexicon import Lexicon
from gateway.classify.names.model.words import cut

Span = tuple[int, int]

AROUND = 5
"""Tokens to either side of what could be a name that are read with it. Twice as many find no more
(`python -m loadtests.classify.gate`)."""
_AROUND_CHAT = 14  # of a handle or a word of chats: who writes so spares capitals
_J = "[-' ]{0,2}"  # between two words of a name
_P = "(?:p[-']?|[iIMJ]'){0,3}"  # particles before a surname, `O'`
_PERSON = (
    # two capitalised words, of which one is no everyday word
    rf"[GNYBW]{_J}{_P}[GNYB]",
    rf"[GY]{_J}{_P}[LTWS]",
    rf"G{_J}p{{0,3}}[CF]",
    rf"Y{_J}p{{0,3}}C",
    rf"C{_J}[GYN]",
    rf"N{_J}p{{0,3}}C",
    "[NB]p{1,3}[FLS]",
    # in adjacent cells or lines, in either order
    r"[GY] ?[,|;\n\"/ ]{1,5} ?[GNB]",
    r"[NB] ?[,|;\n\"/ ]{1,5} ?[GY]",
    rf"[/;|]{_P}[GNBgn],[GNBYgnh]",
    # initials
    rf"[IM]{_J}{_P}[GNB]",
    rf"[IMJ]\.(?:-?[IMJ]\.?){{0,3}}{_P}[GNCYBLSgn]",
    rf"[GNYB]{_J}(?:[IM](?![cgnpmsht])|J(?![cgnpmsht']))",
    r"g[iIJM]\.?[gnhsmN]",
    r"[hn][iIJM]\.[gnhsmN]",
    r"i\.[gnhsGNB]",
    r"p\.[gnGNB]",
    # in small letters
    rf"g{_J}{_P}[gnhsmNY]",
    rf"G{_J}{_P}[gnhs]",
    rf"h{_J}{_P}[gnN]",
    rf"Y{_J}{_P}[gn]",
    rf"N{_J}{_P}[gn]",
    rf"n{_J}[ngh]",
    # behind a title
    rf"T\.?[Tcmi]?\.?(?: ?[TcC]\.){{0,3}}{_P}[GNCFLBYIMJgnkhsmSW]",
    r"T\.?[IMJ]",
    r"M\.[-IMJ.]{0,6}[GNCYBIMJ]",
    rf"t\.?(?:[tcm]\.){{0,3}}{_P}[GNCFLBYIMgnhsk]",
    r"t\.?p{1,2}[a-z]",
)
_ADDRESS = (
    r"[dk][,.]?[GNCLBYIMJngpTtd.,' -]{0,5}S",
    r"[dk][,.]?[cm]S",
    r"S[GNCLBYIMJngpTtcm.,'\n -]{0,6}[dk]",
    r"(?:p\.|[IM]/)[GNCFLBYm]{1,4},?[dk]",
    "[dk][,.]?[GNB]",
    "[GNB][,.]?[dk]",
    "dnd",
    "z[nghs]{1,2},?[dk]",
    "[dk],?[nghs]{1,2}z",
)
_FULL = re.compile("|".join((*_PERSON, *_ADDRESS)))
_CHAT = re.compile(r"[@#][A-Za-z]|x|!!")


@dataclass(frozen=True, slots=True)
class GatedText:
    """A text as the model gets it: the parts to read, in characters."""

    text: str = field(repr=False)
    windows: tuple[Span, ...]
    foreign: bool = False
    """In a language that the model was not measured on: nobody reads it."""

    def __len__(self) -> int:
        """Characters to read."""
        return sum(end - start for start, end in self.windows)


class NamesGate:
    """For all threads of a process."""

    def __init__(self, lexicon: Lexicon, languages: Languages | None) -> None:
        """`languages`: None where every language is read."""
        self._kinds = TokenKinds(lexicon, languages)
        self._languages = languages

    def filter(self, text: str, lone: bool) -> GatedText:
        """`lone`: whether lone names count, for which all of the text is read."""
        tokens = TOKEN.findall(text)
        letters = "".join(map(self._kinds.__getitem__, tokens))
        # guard: C19.language
        if self._languages is not None and self._is_foreign(text, letters):
            return GatedText(text, (), foreign=True)
        if lone:
            return GatedText(text, ((0, len(text)),) if tokens else ())
        windows = [*_windows(tokens, letters[::2]), *_in_one_case(text)]
        return GatedText(text, tuple(_merged(windows)))

    def _is_foreign(self, text: str, letters: str) -> bool:
        assert self._languages is not None
        if not text.isascii() and foreign_script(text):
            return True
        return may_be_foreign(letters) and self._languages.foreign_words(cut(text)) is not None


def _in_one_case(text: str) -> Iterator[Span]:
    """The strings of a call that have no capitals, or no small letters: any two words of them could
    be a name."""
    start = 0
    for one in text.split(BETWEEN):
        if one.islower() or one.isupper():
            yield start, start + len(one)
        start += len(one) + len(BETWEEN)


def _merged(windows: list[Span]) -> Iterator[Span]:
    """In order, and apart from each other."""
    if not windows:
        return
    windows.sort()
    first, end = windows[0]
    for start, behind in windows:
        if start > end:
            yield first, end
            first = start
        end = max(end, behind)
    yield first, end


def _windows(tokens: list[str], kinds: str) -> Iterator[Span]:
    """In characters; they may overlap."""
    around = [(m.start() - AROUND, m.end() + AROUND) for m in _FULL.finditer(kinds)]
    around += [(m.start() - _AROUND_CHAT, m.end() + _AROUND_CHAT) for m in _CHAT.finditer(kinds)]
    if around:
        ends = list(itertools.accumulate(map(len, tokens), initial=0))
        last = len(tokens)
        yield from ((ends[max(0, first)], ends[min(last, behind)]) for first, behind in around)
