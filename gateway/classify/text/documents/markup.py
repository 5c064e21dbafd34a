"""The text of HTML as a browser shows it: words that tags divide are whole again.

What else stands in the source (attributes, comments, scripts) is read in the source itself.
"""

from __future__ import annotations

from html.parser import HTMLParser

from gateway.classify.text.documents import PICTURE, Room, Unread

_INLINE = frozenset(
    (  # noqa: SIM905 - one line instead of twenty
        "a abbr b bdi bdo cite code data del dfn em font i ins kbd label mark q s samp small span "
        "strike strong sub sup time tt u var wbr"
    ).split()
)
_CELLS = frozenset({"td", "th"})
_DRAWN = frozenset({"svg", "canvas", "object", "embed", "iframe", "applet"})
"""What shows something that is not in the words of the source."""


class _Shown(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.drawn = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.drawn |= tag in _DRAWN
        if tag not in _INLINE:
            self.parts.append("\t" if tag in _CELLS else "\n")

    def handle_endtag(self, tag: str) -> None:
        if tag not in _INLINE and tag not in _CELLS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def read(source: str, room: Room) -> None:
    """The text that is shown. Raises Unread where something is drawn."""
    shown = _Shown()
    shown.feed(source)
    shown.close()
    if shown.drawn:
        raise Unread(PICTURE)
    room.text("".join(shown.parts))
