"""The text of one XML part of an office document, in the lines and rows that it is shown in.

Runs of a paragraph are one text, cells of a row have tabs between them, and what is not shown in
its place (attributes, comments, field codes, properties) follows line by line.
"""

from __future__ import annotations

import re
import xml.parsers.expat as expat

from gateway.classify.text.documents import FORMAT, LARGE, PICTURE, Room, Unread

_BETWEEN = {
    **dict.fromkeys(("p", "si", "is", "ins", "del", "moveFrom", "moveTo", "c"), ""),
    **dict.fromkeys(("tr", "row"), "\t"),
    "tc": " ",
}
"""What stands between the texts in these elements; in all others each is a line."""
_SHOWN = frozenset({"t", "delText"})
_SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_AS_IT_IS, _AS_IT_WAS = frozenset({"del", "moveFrom"}), frozenset({"ins", "moveTo"})
_DRAWN = frozenset({"custGeom", "ink", "contentPart", "control"})
"""Shapes by their points, ink, and forms of a program's own."""
_WORDS = frozenset(
    (  # noqa: SIM905 - three lines instead of twenty
        "alias alt author descr displayName displayText error errorTitle initials instr name "
        "prompt promptTitle string text title tooltip userId userName"
    ).split()
)
"""Attributes that people write."""
_TYPEFACES = frozenset({"typeface", "ascii", "hAnsi", "cs", "eastAsia", "panose"})
_BUILT_IN = frozenset({"lsdException", "font", "panose1", "sig", "Default", "Override"})
"""Elements with the names of built-in styles, of typefaces and of parts."""
_CONTENT = re.compile(r"[^\W\d_][^\w]+[^\W\d_]|@|\d[ ./-]\d|\d{9}")
"""Of any other attribute: two words, an address, or a number that could identify somebody."""
_MEASURE = re.compile(r"[-+]?\d{1,8}(?:\.\d+)?")
_MOST_DEPTH = 256
_COMMENT_ELEMENTS = frozenset({"rPh", "instrText", "f"})


class Shared:
    """The strings that the cells of a workbook refer to."""

    def __init__(self) -> None:
        self.strings: list[str] = []


def read_part(name: str, data: bytes, shared: Shared, room: Room) -> None:
    """Raises Unread."""
    part = _Part(name, shared, _AS_IT_IS)
    part.parse(data)
    room.text(part.text())
    if part.changed:  # guard: K2.tracked-changes
        before = _Part(name, shared, _AS_IT_WAS)
        before.parse(data)
        room.text(before.text())


class _Part:
    def __init__(self, name: str, shared: Shared, skipped: frozenset[str]) -> None:
        """`skipped`: elements that are not shown among the others, but are read."""
        self.changed = False
        self._shared = shared
        self._skipped = skipped
        self._links = name.endswith(".rels")
        self._strings = name.endswith("sharedStrings.xml")
        self._named = name.startswith("docProps/")
        self._open: list[str] = []
        self._blocks: list[tuple[str, list[str]]] = [("\n", [])]
        self._apart: list[str] = []
        self._apart_from = 0  # the depth from which on text is not shown in its place; 0: none
        self._cell = ""  # the type of the cell that is open
        self._data: list[str] = []

    def parse(self, data: bytes) -> None:
        parser = expat.ParserCreate(namespace_separator="}")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = _refuse
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.CommentHandler = self._apart.append
        parser.ProcessingInstructionHandler = lambda target, words: self._apart.append(words)
        try:
            parser.Parse(data, True)
        except expat.ExpatError:
            raise Unread(FORMAT) from None

    def text(self) -> str:
        shown = [text for text in self._blocks[0][1] if text and not text.isspace()]
        return "\n".join([*shown, *filter(None, self._apart)])

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition("}")[2]
        self._open.append(local)
        if len(self._open) > _MOST_DEPTH:
            raise Unread(LARGE)
        if local in _DRAWN:  # guard: K2.office-drawn
            raise Unread(PICTURE)
        if local in _BETWEEN:
            self._blocks.append((_BETWEEN[local], []))
        if local in _SIGNS:
            self._blocks[-1][1].append(_SIGNS[local])
        if local in _AS_IT_IS or local in _AS_IT_WAS:
            self.changed = True
        if not self._apart_from and (local in self._skipped or local in _COMMENT_ELEMENTS):
            self._apart_from = len(self._open)
        if local == "c":
            self._cell = attributes.get("t", "n")
        self._data = []
        self._read_attributes(local, attributes)

    def _read_attributes(self, element: str, attributes: dict[str, str]) -> None:
        if element in _BUILT_IN or (self._links and attributes.get("TargetMode") != "External"):
            return
        for name, value in attributes.items():
            local = name.rpartition("}")[2]
            if local in _TYPEFACES or "://schemas." in value or _MEASURE.fullmatch(value):
                continue
            if local in _WORDS or _CONTENT.search(value):
                self._apart.append(value)

    def _characters(self, data: str) -> None:
        self._data.append(data)

    def _end(self, name: str) -> None:
        local = self._open[-1]
        text, self._data = "".join(self._data), []
        if self._apart_from:
            self._apart.append(text)
        elif local in _SHOWN:
            self._blocks[-1][1].append(text)
        elif local == "v" and self._cell:
            self._blocks[-1][1].append(self._value(text))
        elif text and not text.isspace():
            if self._named:
                self._apart.append(f"{local}: {text}")
            elif _MEASURE.fullmatch(text) is None:
                self._apart.append(text)
        if local in _BETWEEN:
            self._close_block(local)
        if self._apart_from == len(self._open):
            self._apart_from = 0
        if local == "c":
            self._cell = ""
        self._open.pop()

    def _close_block(self, local: str) -> None:
        between, parts = self._blocks.pop()
        whole = between.join(parts)
        if self._apart_from:
            self._apart.append(whole)
        elif local == "si" and self._strings:
            self._shared.strings.append(whole)
            self._blocks[-1][1].append(whole)
        else:
            self._blocks[-1][1].append(whole)

    def _value(self, text: str) -> str:
        if self._cell != "s":
            return text
        try:
            return self._shared.strings[int(text)]
        except (ValueError, IndexError):
            raise Unread(FORMAT) from None


def _refuse(*_: object) -> None:
    """A document type could define entities; office documents have none."""
    raise Unread(FORMAT)  # guard: K2.xml-doctype
