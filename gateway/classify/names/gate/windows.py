"""Where in a text a name that identifies somebody could stand, or an address."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.classify.conversations.memory import BETWEEN
from gateway.classify.names import Enough
from gateway.classify.names.gate.kinds import TOKEN, TokenKinds
from gateway.classify.names.gate.languages import may_be_foreign
from gateway.classify.names.model.languages import Languages, foreign_script
from gateway.classify.names.model.lexicon import Lexicon
from gateway.classify.names.model.words import cut
from gateway.classify.text.stems import Stems

Span = tuple[int, int]

AROUND = 5
"""Tokens to either side of what could be a name that are read with it. Twice as many find no more
(`python -m loadtests.classify.gate`)."""
_AROUND_CHAT = 14  # of a handle or a word of chats: who writes so spares capitals
_J = "[-' ]{0,2}"  # between two words of a name
_P = "(?:[pP][-']?|[iIMJ]'){0,3}"  # particles before a surname, `O'`
_PERSON = (
    # two capitalised words, of which one is no everyday word
    rf"[GNYBW]{_J}{_P}[GNYB]",
    rf"[GY]{_J}{_P}[LTWS]",
    rf"[GYN]{_J}P",
    rf"G{_J}[pP]{{0,3}}[CDF]",
    rf"Y{_J}[pP]{{0,3}}[CD]",
    rf"C{_J}[GN]",
    rf"D{_J}[GYN]",
    rf"J(?:'i|c)[CDLB]{_J}{_P}[GYNB]",  # `I'm`, `I am`
    rf"N{_J}[pP]{{0,3}}[CDL]",
    "[NB][pP]{1,3}[FLS]",
    # in adjacent cells or lines, in either order
    r"[GY] ?[,|;\n\"/ ]{1,5} ?[GNB]",
    r"[NB] ?[,|;\n\"/ ]{1,5} ?[GY]",
    rf"[/;|]{_P}[GNBgnr],[GNBYgnhr]",
    # initials
    rf"[IM]{_J}{_P}[GNB]",
    rf"[IMJ]\.(?:-?[IMJ]\.?){{0,3}}{_P}[GNCDYBLSgnr]",
    rf"[GNYB]{_J}(?:[IM](?:[^cgnpmshtr]|$)|J(?:[^cgnpmsht'r]|$))",
    r"g[iIJM]\.?[gnhsmNr]",
    r"[hnr][iIJM]\.[gnhsmNr]",
    r"i\.[gnhsGNBr]",
    r"p\.[gnGNBr]",
    # in small letters
    rf"g{_J}{_P}[gnhsmNYr]",
    rf"G{_J}{_P}[gnhsr]",
    rf"h{_J}{_P}[gnN]",
    rf"Y{_J}{_P}[gnr]",
    rf"N{_J}{_P}[gn]",
    rf"n{_J}[ngh]",
    # behind a title
    rf"T\.?[Tcmi]?\.?(?: ?[TcCD]\.){{0,3}}{_P}[GNCDFLBYIMJgnkhsmSWr]",
    r"T\.?[IMJ]",
    r"M\.[-IMJ.]{0,6}[GNCDYBIMJ]",
    rf"t\.?(?:[tcm]\.){{0,3}}{_P}[GNCDFLBYIMgnhskr]",
    r"t\.?[pP]{1,2}[a-z]",
)
_ADDRESS = (
    r"[dk][,.]?[GNCDLBYIMJnrgpPTtd.,' -]{0,5}S",
    r"[dk][,.]?[cm]S",
    r"S[GNCDLBYIMJnrgpPTtcm.,'\n -]{0,6}[dk]",
    r"(?:[pP]\.|[IM]/)[GNCDFLBYm]{1,4},?[dk]",
    "[GNB][,.]?[dk]",
    "dnd",
    "z[nghsr]{1,2},?[dk]",
    "[dk],?[nghsr]{1,2}z",
)
_IN_ONE_CASE = re.compile(r"[gnrhsGNYB].*[gnrhsmGNYBCDFLWdk]|[mCDFLWdk].*[gnrhsGNYB]", re.DOTALL)
"""A word that could be a name, and another one or a number, where capitals say nothing."""
_CHAT = ("[@#][A-Za-ce-z]", "x", "!!")
_SHAPES = Stems([*_CHAT, *_PERSON, *_ADDRESS])


@dataclass(frozen=True, slots=True)
class GatedText:
    """A text as the model gets it: the parts to read, in characters."""

    text: str = field(repr=False)
    windows: tuple[Span, ...]
    foreign: bool = False
    """In a language that the model was not measured on: nobody reads it."""
    enough: Enough | None = field(default=None, repr=False)
    """As `Names.find` has it: the same object in all texts of a call, another one in each call."""

    def __len__(self) -> int:
        """Characters to read."""
        return sum(end - start for start, end in self.windows)


class NamesGate:
    """For all threads of a process."""

    def __init__(self, lexicon: Lexicon, languages: Languages | None) -> None:
        """`languages`: None where every language is read."""
        self._kinds = TokenKinds(lexicon, languages)
        self._languages = languages

    def filter(self, text: str, lone: bool, enough: Enough | None = None) -> GatedText:
        """`lone`: whether lone names count, for which all of the text is read."""
        tokens = TOKEN.findall(text)
        letters = "".join(map(self._kinds.__getitem__, tokens))
        # guard: C19.language
        if self._languages is not None and self._is_foreign(text, letters):
            return GatedText(text, (), foreign=True)
        if lone:
            return GatedText(text, ((0, len(text)),) if tokens else (), enough=enough)
        windows = [*_windows(tokens, letters[::2]), *self._in_one_case(text)]
        return GatedText(text, tuple(_merged(windows)), enough=enough)

    def _is_foreign(self, text: str, letters: str) -> bool:
        assert self._languages is not None
        if not text.isascii() and foreign_script(text):
            return True
        return may_be_foreign(letters) and self._languages.foreign_words(cut(text)) is not None

    def _in_one_case(self, text: str) -> Iterator[Span]:
        """The strings of a call that have no capitals, or no small letters, and in which a name of
        two words, or an address, could stand."""
        start = 0
        for one in text.split(BETWEEN):
            if one.islower() or one.isupper():
                letters = "".join(map(self._kinds.__getitem__, TOKEN.findall(one)))
                if _IN_ONE_CASE.search(letters[::2]):
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
    shapes = _SHAPES.find(kinds)
    if shapes:
        ends = list(itertools.accumulate(map(len, tokens), initial=0))
        last = len(tokens)
        for start, end, shape in shapes:
            around = AROUND if shape >= len(_CHAT) else _AROUND_CHAT
            yield ends[max(0, start - around)], ends[min(last, end + around)]
