# ruff: noqa: E501 - patterns of one form a line
"""Names in the cells of tables: a head that names the columns, and rows below it.

Lines of CSV, TSV and Markdown; lists and tuples (SQL's INSERT, JSON's columns and data); rows of
HTML; and messages whose fields have fixed places (HL7 version 2, X12, vCard).
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.classify.names.records.fields import Field, make_field
from gateway.classify.names.records.keys import Key, NamePart, folded, match_key
from gateway.classify.names.records.particulars import is_head
from gateway.classify.names.records.unescaped import Unescaped

Cell = tuple[int, int]

_MOST_CELLS = 1_000  # of a row
_LONGEST_HEAD = 60  # characters
_LINE = re.compile(r"[^\n]+")
_CELLS = {
    sign: re.compile(
        rf"[ ]*\"((?:[^\"]|\"\")*)\"[ ]*(?={re.escape(sign)}|$)|([^{re.escape(sign)}\n]*)"
    )
    for sign in "\t|;,"
}
_GROUP = re.compile(r"[\[(]([^\[\](){}]{3,4000})[\])]")
_SELECTED = re.compile(r"\s{0,4}select\s([^;\n]{1,2000})", re.IGNORECASE)
_COPIED = re.compile(r"[^\n;]{0,40}\bstdin\b[^\n]{0,60}\n", re.IGNORECASE)  # PostgreSQL's COPY
_IN_GROUP = re.compile(
    r"\s*(?:[nN]?'((?:[^']|'')*)'|\"([^\"]*)\"|`([^`]*)`|\[([^\]]*)\]|([^,]*))\s*(?:,|$)"
)
_ROW = re.compile(r"<tr\b.{0,6000}?(?=</tr>|<tr\b|</table>|$)", re.IGNORECASE | re.DOTALL)
_TD = re.compile(r"<t[dh]\b[^<>]*>\s*(?:<[^<>/][^<>]*>\s*)*([^<]*)", re.IGNORECASE)


_CARD = re.compile(
    r"(?:^|(?<=[\n\r:;\"]))[ \t]*(?:item\d\.)?N(?:;[^:\n]{0,60})?:([^;,:\n]{0,60})[;,]([^;,:\n]{0,60})",
    re.MULTILINE,
)
_NM1 = re.compile(
    r"(?:^|(?<=[\n~]))NM1\*\w{1,3}\*1\*([^*~\n]{0,60})\*([^*~\n]{0,60})", re.MULTILINE
)
_PLAIN = r"[^\W\d_][^|^~&\\\n\r\t,;:<>\"=(){}\[\]]{0,59}"
_BEFORE_CARET = re.compile(rf"(?<![\w^']){_PLAIN}$")
_BEHIND_CARET = re.compile(_PLAIN)
_FAR = 1_000  # characters from the head of a segment
_PERSON_SEGMENT = re.compile(r"(?<![\w|^])(?:PID|NK1|GT1|IN1|IN2|MRG|STF|PRA)\|")


@dataclass(frozen=True, slots=True)
class _TableHead:
    """Which columns hold names, and which hold particulars of somebody."""

    names: dict[int, Key]
    particulars: tuple[int, ...]
    size: int

    @property
    def announces(self) -> bool:
        parts = {key.part for key in self.names.values()}
        return bool(self.names and self.particulars) or (
            NamePart.FAMILY in parts
            and not parts.isdisjoint({NamePart.GIVEN, NamePart.NAME, NamePart.FULL})
        )


@dataclass(frozen=True, slots=True)
class Row:
    """The names in a row. `particular`: a column of it holds a particular of somebody."""

    fields: tuple[Field, ...]
    particular: bool = False


def tabled(read: Unescaped, announced: Sequence[Key]) -> Iterator[Row]:
    """The names in each row below a head. `announced` are the keys of the text, of which a head has
    two, or one beside the name of a particular."""
    yield from _line_rows(read.text, announced)
    yield from _group_rows(read.text, announced)
    if "<t" in read.folded:
        yield from _table_rows(read.text)


def placed(read: Unescaped) -> Iterator[Row]:
    """Names by their place in a message."""
    text = read.text
    if "N:" in text or "N;" in text:
        for match in _CARD.finditer(text):
            yield _pair(text, match.span(1), match.span(2))
    if "NM1*" in text:
        for match in _NM1.finditer(text):
            yield _pair(text, match.span(1), match.span(2))
    yield from _with_carets(text)


def _with_carets(text: str) -> Iterator[Row]:
    """Family name and given name as HL7's types XPN and XCN and DICOM's PN have them."""
    at = text.find("^")
    while at >= 0:
        before = _BEFORE_CARET.search(text, max(0, at - _LONGEST_HEAD), at)
        after = _BEHIND_CARET.match(text, at + 1)
        if before is not None and after is not None:
            first = max(0, at - _FAR)
            line = max(text.rfind(sign, first, at) for sign in "\n\r") + 1
            strong = _PERSON_SEGMENT.search(text, max(line, first), at) is not None
            yield _pair(text, before.span(), after.span(), strong=strong)
        at = text.find("^", at + 1)


def _pair(text: str, family: Cell, given: Cell, *, strong: bool = True) -> Row:
    keys = (Key(NamePart.FAMILY, strong, 0, 0), Key(NamePart.GIVEN, strong, 0, 0))
    both = (make_field(text, key, *cell) for key, cell in zip(keys, (family, given), strict=True))
    return Row(tuple(one for one in both if one is not None))


def _line_rows(text: str, announced: Sequence[Key]) -> Iterator[Row]:
    end = 0
    for key in announced:
        if key.start < end:
            continue
        start = text.rfind("\n", 0, key.start) + 1
        end = text.find("\n", key.end)
        if end < 0:
            return
        line = text[start:end]
        for sign in sorted(filter(line.count, _CELLS), key=line.count, reverse=True):
            head = _head(text, _cells(text, start, end, sign))
            if head.announces:
                rows = _lines_below(text, end + 1, sign, announced)
                yield from (_row(text, _cells(text, *line, sign), head) for line in rows)
                break


def _lines_below(text: str, start: int, sign: str, announced: Sequence[Key]) -> Iterator[Cell]:
    """The lines with a sign up to one that is itself a head, so that none is read twice."""
    starts = [key.start for key in announced]
    for line in _LINE.finditer(text, start):
        if sign not in line[0]:
            return
        at = bisect.bisect_left(starts, line.start())
        in_line = at < len(starts) and starts[at] < line.end()
        if in_line and _head(text, _cells(text, *line.span(), sign)).announces:
            return
        yield line.span()


def _cells(text: str, start: int, end: int, sign: str) -> list[Cell]:
    cells: list[Cell] = []
    at = start
    while at <= end and len(cells) < _MOST_CELLS:
        match = _CELLS[sign].match(text, at, end)
        assert match is not None
        cells.append(match.span(match.lastindex or 2))
        at = match.end() + 1
    return cells


def _head(text: str, cells: Sequence[Cell]) -> _TableHead:
    names: dict[int, Key] = {}
    particulars: list[int] = []
    for at, (start, end) in enumerate(cells):
        if end - start > _LONGEST_HEAD:
            continue
        cell = text[start:end]
        if (key := match_key(cell)) is not None:
            names[at] = key
        elif is_head(folded(cell)):
            particulars.append(at)
    return _TableHead(names, tuple(particulars), len(cells))


def _row(text: str, cells: Sequence[Cell], head: _TableHead) -> Row:
    some = (make_field(text, key, *cells[at]) for at, key in head.names.items() if at < len(cells))
    values = (text[slice(*cells[at])] for at in head.particulars if at < len(cells))
    return Row(
        tuple(one for one in some if one is not None),
        any(len(value.strip(" -\"'")) > 1 for value in values),
    )


def _group_rows(text: str, announced: Sequence[Key]) -> Iterator[Row]:
    """Lists in brackets: one of columns, and those behind it that are as long."""
    head: _TableHead | None = None
    starts = [key.start for key in announced]
    for group in _GROUP.finditer(text, max(0, starts[0] - 4000)):
        at = bisect.bisect_left(starts, group.start())
        announces = at < len(starts) and starts[at] < group.end()
        if not announces and head is None:
            continue
        cells = _listed(text, *group.span(1))
        if announces and len(cells) > 1 and (new := _head(text, cells)).announces:
            head = new
            if (select := _SELECTED.match(text, group.end())) is not None:
                yield _row(text, _listed(text, *select.span(1)), head)
            if (stdin := _COPIED.match(text, group.end())) is not None:
                rows = _lines_below(text, stdin.end(), "\t", announced)
                yield from (_row(text, _cells(text, *line, "\t"), head) for line in rows)
        elif head is not None and len(cells) == head.size:
            yield _row(text, cells, head)


def _listed(text: str, start: int, end: int) -> list[Cell]:
    cells: list[Cell] = []
    at = start
    while at < end and len(cells) < _MOST_CELLS:
        match = _IN_GROUP.match(text, at, end)
        if match is None or match.end() == at:
            break
        cells.append(match.span(match.lastindex or 5))
        at = match.end()
    return cells


def _table_rows(text: str) -> Iterator[Row]:
    head: _TableHead | None = None
    for row in _ROW.finditer(text):
        cells = [cell.span(1) for cell in _TD.finditer(text, *row.span())]
        new = _head(text, cells)
        if new.announces:
            head = new
        elif head is not None:
            yield _row(text, cells, head)
