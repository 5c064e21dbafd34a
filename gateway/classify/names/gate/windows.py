"""Where in a text a name that identifies somebody could stand, or an address."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

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
_J = "[-' ]{0,2}"
_P = "(?:p[-']?){0,3}"
_PERSON = "|".join(
    (
        # two capitalised words, of which one is no everyday word; "Anna van der Meer"
        rf"[GNYW]{_J}{_P}[GNY]|[GY]{_J}{_P}[LTWS]|G{_J}p{{0,3}}[CF]|C{_J}[GYN]|N{_J}p{{0,3}}C|Np{{1,3}}[FLS]",
        # in cells or lines beside each other, or the other way round
        r"[GY] ?[,|;\n\"/ ]{1,5} ?[GN]|N ?[,|;\n\"/ ]{1,5} ?[GY]",
        # initials
        rf"[IM]{_J}{_P}[GN]|[IMJ]\.(?:-?[IMJ]\.?){{0,3}}{_P}[GNCYgn]|[GNY]{_J}[IMJ](?![cgnpmsht'])",
        r"g[iIJM]\.?[gnhsmN]|[hn][iIJM]\.[gnhsmN]|[ip]\.[gnGN]",
        # in small letters
        rf"g{_J}p{{0,3}}[gnhsmNY]|G{_J}p{{0,3}}[gnhs]|h{_J}p{{0,3}}[gnN]|Yg|N{_J}p{{0,3}}[gn]|n{_J}[ngh]",
        # behind a title
        r"T\.?[Tcmi]?\.?(?: ?[TcC]\.){0,3}p{0,2}[GNCFLYIMJgnkhsmSW]|T\.?[IMJ]|M\.[-IMJ.]{0,6}[GNCYIMJ]",
        r"t\.?(?:[tcm]\.){0,3}p{0,2}[GNCLYIMgnhsk]",
    )
)
_ADDRESS = (
    r"[dk][,.]?[GNCLYIMJngpTtd.,' -]{0,5}S|S[GNCLYIMJngpTtcm.,'\n -]{0,6}[dk]"
    r"|[dk][,.]?[GN]|[GN][,.]?[dk]|dnd"
)
_FULL = re.compile(f"{_PERSON}|{_ADDRESS}")
_CHAT = re.compile(r"[@#][A-Za-z]|x|!!")


@dataclass(frozen=True, slots=True)
class LookedAt:
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

    def look(self, text: str, lone: bool) -> LookedAt:
        """`lone`: whether lone names count, for which all of the text is read."""
        tokens = TOKEN.findall(text)
        letters = "".join(map(self._kinds.__getitem__, tokens))
        if self._languages is not None and self._is_foreign(text, letters):
            return LookedAt(text, (), foreign=True)
        if lone:
            return LookedAt(text, ((0, len(text)),) if tokens else ())
        return LookedAt(text, tuple(_windows(tokens, letters[::2])))

    def _is_foreign(self, text: str, letters: str) -> bool:
        assert self._languages is not None
        if not text.isascii() and foreign_script(text):
            return True
        return may_be_foreign(letters) and self._languages.foreign_words(cut(text)) is not None


def _windows(tokens: list[str], kinds: str) -> Iterator[Span]:
    """In characters, in order, apart from each other."""
    around = [(m.start() - AROUND, m.end() + AROUND) for m in _FULL.finditer(kinds)]
    around += [(m.start() - _AROUND_CHAT, m.end() + _AROUND_CHAT) for m in _CHAT.finditer(kinds)]
    if not around:
        return
    ends = list(itertools.accumulate(map(len, tokens), initial=0))
    around.sort()
    start, end = around[0]
    for first, behind in around:
        if first > end:
            yield ends[max(0, start)], ends[end]
            start = first
        end = min(max(end, behind), len(tokens))
    yield ends[max(0, start)], ends[end]
