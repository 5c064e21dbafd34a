# ruff: noqa: E501 - patterns of one form a line
"""Values that stand under a key of a name, in whatever a record is written in.

A key is followed by its value in JSON, YAML, forms, XML and HTML, SQL, lines and prose, and in the
strings of a call as they are joined; what may stand between the two is all that differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gateway.classify.names.records.keys import Key, NamePart, is_key, keys
from gateway.classify.names.records.plausible import LONGEST, is_name_like
from gateway.classify.names.records.unescaped import Unescaped


@dataclass(frozen=True, slots=True)
class Field:
    """A value that may be a name. `strong`: under a person's key; `sure`: by a sign or a word that
    makes it the value of its key."""

    part: NamePart
    strong: bool
    value: str = field(repr=False)
    start: int
    end: int
    sure: bool = True


_TAG = r"<[/!]?[a-z][^<>]{0,160}>"
_HOLDER = (
    r"(?:[@#$_.]{0,2}(?:value|valuestring|stringvalue|string_value|val|content|cdata|s|v|t|text|new"
    r"|answers?|antwort|reponse|respuesta|risposta|resposta|antwoord|odpowiedz"
    r"|wert|valor|valeur|valore|waarde|wartosc|newvalue))"
)
_HOLDS = rf"(?:[\"']?{_HOLDER}[\"']?[ \t]*[:=][ \t]*|{_HOLDER}\n\|\n)"
_OPEN = (
    r"(?:[ \t]*(?:\r?\n[ \t]*-[ \t]+|[\[({]\s*|<!\[cdata\[|" + _TAG + r"\s*)){0,8}"
    rf"(?:{_HOLDS})?[ \t]*(?:[\[({{]\s*){{0,4}}(?:{_HOLDS})?[ \t]*"
    r"(?:n(?='))?(?:[%\"'`*_\u201c\u201e\u00ab\u2018]{1,3}[ \t]*)?"
)
_IS = (
    r"is|was|are|ist|lautet|war|heisst|sind|est|etait|sont|es|era|son|e|sono|sao|jest|to|brzmi|luidt"
    r"|zijn|like|ilike|eq|being"
)
_CLOSE = r"(?: ?\([^()\n]{0,40}\))?[\"'`\])}*_?]{0,4}"
_ENDED = r"(?:\s?</[a-z]{1,10}>){1,3}"
_VALUE_AFTER = re.compile(
    rf"{_CLOSE}(?:"
    # colon, equals sign, arrow; perhaps some words before it ("of the patient:")
    rf"(?:(?: [a-z]{{1,12}}){{0,4}}[*_]{{0,2}}(?=\s?:)|[ ]?\.{{2,80}}|{_ENDED}|[*_]{{0,2}})\s{{0,2}}"
    rf"(?:::?=?|=[=>~]?|-+>|\u2192|\uff1a){_OPEN}"
    rf"|[ ]?\.{{3,80}}[ ]?|[ ][-\u2013\u2014][ ]{_OPEN}|\s?\(\s?[\"']"
    rf"|\n\|\n(?:{_HOLDS})?"
    rf"|[ \t]*(?:\||\t)[ \t]*{_OPEN}"
    rf"|[ \t]+(?:(?:of|des|der|du|de|del|della|do|da|van)(?: [a-z]{{1,12}}){{1,3}} )?(?:{_IS})[ \t]*:?"
    rf"[ \t]+{_OPEN}"
    # beside it in the same object, element or part
    rf"|(?<!\}})[^{{}}<>]{{0,120}}?[,\[\s][\"']?{_HOLDER}[\"']?[ \t]*[:=]\s*{_OPEN}"
    rf"|(?:\n\|\n[^\n]{{0,40}}){{0,4}}?\n\|\n{_HOLDER}\n\|\n"
    r"|(?<=[\"'])[^\n<>{}]{0,60}\r?\n(?:content-[^\n]{0,100}\n){0,3}\r?\n[ \t]*"
    rf"|(?:\s*{_TAG}){{0,4}}?\s*<[a-z][^<>]{{0,120}}?\s{_HOLDER}\s?=\s?[\"']?"
    rf"|(?:\s*{_TAG}){{1,6}}\s*{_OPEN}"
    rf"|(?<=[\"'])[^<>\n]{{0,80}}(?<!/)>\s*{_OPEN}"
    r")"
)
_RIGHT_AFTER = re.compile(r"[ ,]{1,2}[\"'\u201c\u201e\u00ab\u2018]?")
_NEXT_LINE = re.compile(r"[ \t]*\r?\n[ \t]*(?:\r?\n[ \t]*)?(?=[^\n,;|:=<>{}\"]{1,60}(?:\r?\n|$))")
_NEXT_CELL = re.compile(
    r"[\"']?[ ]?[;,][ ]?[\"']?(?=[^\n,;|:=<>{}\"']{1,60}[\"']?[ ]?(?:\r?\n|[\])}]|$))"
)
_ALONE = re.compile(r"(?:^|[\n\r\[({])[ \t]*[\"']?(?:[a-z]{2,12}[ _.-]){0,2}$")
"""What stands before a key whose value is the next line, or the only other cell of its row."""
_IN_TAG = re.compile(
    rf"(?:[^<>]{{0,160}}?\s{_HOLDER}\s?=\s?[\"']?|[^<>]{{0,160}}(?<!/)>\s*"
    rf"(?:<(?!/)(?!!)[^<>]{{1,120}}>\s*|<!\[cdata\[\s*){{0,4}})"
)
_VALUE_BEFORE = re.compile(
    rf"[\"'\s,{{<]{_HOLDER}[\"']?\s?[:=]\s?[\"']([^\"'<>{{}}]{{1,60}})[\"'][^\"<>{{}}]{{0,40}}"
    r"[\"'\s][a-z_-]{2,12}[\"']?\s?[:=]\s?[\"']?$"
    rf"|(?:^|\n){_HOLDER}\n\|\n([^\n]{{1,60}})\n\|\n(?:(?:name|key|field|id|label|column)\n\|\n)?$"
)
_BACK, _FURTHEST = 200, 800  # characters before and behind a key in which its value begins
_CLOSING = {"\u201c": "\u201d", "\u201e": "\u201c", "\u00ab": "\u00bb", "\u2018": "\u2019"}
_UNQUOTED = re.compile(r"[^\n\r\t,;|&<>\"{}\[\]()=:/\\\x00?!\u201d\u00bb#*]{1,120}")
_CALLED = ":=(["  # behind a word: it is itself a key, or a name in code
_CAPITAL = r"(?:[A-Z]|[^\W\d_a-z])"
_PROSE = re.compile(
    rf"(?:{_CAPITAL}(?:[^\W\d_]|[\u0300-\u036f])*+(?:['\u2019-](?:[^\W\d_]|[\u0300-\u036f])++)*+"
    r"(?:(?<![^\W\d_]{4})\.)?"
    rf"(?:\s(?:(?:van|von|de|del|della|di|da|dos?|du|der|den|la|le|ter|zu|e|y)\s){{0,2}}(?={_CAPITAL}))?"
    r"){1,4}"
)
_WORD = re.compile(r"[^\W\d_]{2,40}")
_FEW = 4  # words, of which a value without quotes has no more


def fields(read: Unescaped, key_list: Sequence[Key] | None = None) -> Iterator[Field]:
    """The values of the text's keys, in order. Keys within a value announce none."""
    some = list(keys(read.text, read.folded)) if key_list is None else key_list
    for at, key in enumerate(some):
        following = some[at + 1].start if at + 1 < len(some) else len(read.text)
        value = _read_value(read, key, following)
        if value is not None:
            yield value


def _read_value(read: Unescaped, key: Key, following: int) -> Field | None:
    text, plain = read.text, read.folded
    before = plain[max(0, key.start - 40) : key.start]
    tag = re.search(r"<(?:[\w.-]{1,30}:)?(?:[\w.-]{1,20}[._-])?$", before)
    if re.search(r"</(?:[\w.-]{1,30}:)?[\w.-]{0,20}$", before):
        return None
    sure = True
    match = (_IN_TAG if tag else _VALUE_AFTER).match(plain, key.end, key.end + _FURTHEST)
    if match is None or match.end() > following:
        match = None
        if tag is not None or key.part is NamePart.NAME:
            return None
        if (before_it := _before(read, key)) is not None:
            return before_it
        if key.strong:
            match, sure = _follows(plain, key, before), False
    if match is None or match.end() > following:
        return None
    right_after = not sure and "\n" not in match[0] and match.re is _RIGHT_AFTER
    span = _span(text, match.end(), in_prose=right_after)
    return None if span is None else _field(text, key, *span, sure)


def _follows(plain: str, key: Key, before: str) -> re.Match[str] | None:
    """The value of a key with no sign between them: in the next line or cell, or in a sentence."""
    if _ALONE.search(before) is not None:
        for expression in (_NEXT_LINE, _NEXT_CELL):
            if (match := expression.match(plain, key.end)) is not None:
                return match
    return _RIGHT_AFTER.match(plain, key.end)


def _before(read: Unescaped, key: Key) -> Field | None:
    """Of `{"value": "Anna", "name": "first_name"}`."""
    first = max(0, key.start - _BACK)
    match = _VALUE_BEFORE.search(read.folded[first : key.start])
    if match is None:
        return None
    start, end = match.span(match.lastindex or 1)
    return _field(read.text, key, first + start, first + end, True)


def _span(text: str, start: int, *, in_prose: bool) -> tuple[int, int] | None:
    """The value that begins there."""
    quote = text[start - 1] if start else ""
    if quote in "\"'`" or quote in _CLOSING:
        end = _quoted_end(text, start, _CLOSING.get(quote, quote))
        if end is not None:
            return start, end
    match = _UNQUOTED.match(text, start)
    if match is None:
        return None
    end = match.end()
    text_span = match[0].rstrip()
    if text[end : end + 1] in _CALLED and text[end : end + 1]:
        if text[end] not in ":=" or " " not in text_span:
            return None
        text_span = text_span[: text_span.rindex(" ")].rstrip()  # the last word is the next key
    if in_prose or len(text_span.split()) > _FEW or ". " in text_span:
        prose = _PROSE.match(text, start) or (_WORD.match(text, start) if in_prose else None)
        return None if prose is None else (start, min(end, prose.end()))
    return start, start + len(text_span)


def _quoted_end(text: str, start: int, quote: str) -> int | None:
    """Of `'O''Brien'` and `'O'Brien'` too."""
    end = text.find(quote, start, start + 2 * LONGEST)
    while quote == "'" and end > start:
        after = text[end + 1 : end + 2]
        if after == "'" and text[end + 2 : end + 3].isalpha():
            end = text.find(quote, end + 2, start + 2 * LONGEST)
        elif after.isalpha() and text[end - 1].isalpha():
            end = text.find(quote, end + 1, start + 2 * LONGEST)
        else:
            break
    return end if end > start else None


def make_field(text: str, key: Key, start: int, end: int) -> Field | None:
    """The cell of a table from `start` to `end`, under a column with that key."""
    return _field(text, key, start, end, True)


def _field(text: str, key: Key, start: int, end: int, sure: bool) -> Field | None:
    raw = text[start:end]
    for sign in ("(", ","):
        if sign in raw:
            raw = raw[: raw.index(sign)]
    raw = raw.rstrip()
    bare = raw.lstrip(" \"'`*_")
    start += len(raw) - len(bare)
    bare = bare.rstrip(" \"'`*_")
    if "_" not in bare:
        value = bare.replace("+", " ").replace("''", "'")
        if value.endswith(".") and len(value.split()[-1]) > _FEW:
            value, bare = value[:-1], bare[:-1]
        if is_name_like(value, family=key.part is NamePart.FAMILY) and not is_key(value):
            strong = key.strong and (sure or not value.islower())
            return Field(key.part, strong, value, start, start + len(bare), sure)
    return None


def reversed_after(text: str, one: Field) -> Field | None:
    """The given name of `Patient: Kowalska, Anna`."""
    match = _GIVEN_BEHIND.match(text, one.end)
    if match is None or len(one.value.split()) > _FEW:
        return None
    return _field(text, Key(NamePart.GIVEN, False, 0, 0), *match.span(1), True)


_GIVEN_BEHIND = re.compile(
    rf",[ ]?({_CAPITAL}[^\W\d_]{{1,30}}(?:[ -]{_CAPITAL}[^\W\d_]{{1,30}})?)(?![\w:=])"
)
