"""Documents and pictures that a call carries, read in processes of their own.

Start at attachments.py, which takes them out of a call; pool.py sends each to a worker, and
reading.py there finds its format. Read means all of it: whatever a reader does not know (a stream
of another kind, an embedded object, bytes after the end) raises `Unread`, and the call stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FORMAT = "unscannable:document_format"
"""No known format, another than its media type says, or bytes that do not belong to it."""
ENCRYPTED = "unscannable:document_encrypted"
EMBEDDED = "unscannable:document_embedded"
"""It holds a macro, a script, a form of its own or a file that cannot be read."""
PICTURE = "unscannable:document_picture"
"""A picture in it, or a page, is a photograph or holds marks that are no legible text."""
LARGE = "over_cap"

PDF = "application/pdf"
MOST_BYTES = 20 * 1024 * 1024
"""Of one document, and of all that is unpacked of it five times as much."""
MOST_PAGES = 200
MOST_DEPTH = 3
"""Of documents in documents."""
MOST_PIXELS = 40_000_000
"""Of one picture; all pictures of a document may have five times as many."""


class Unread(Exception):
    """Not all of a document can be read. What could be is not looked at either."""

    def __init__(self, reason: str) -> None:
        """`reason`: a reason code."""
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Room:
    """What may still be read of one document and of all in it; collects the text."""

    characters: int
    octets: int = 5 * MOST_BYTES
    pages: int = MOST_PAGES
    pixels: int = 5 * MOST_PIXELS
    depth: int = MOST_DEPTH
    texts: list[str] = field(default_factory=list, repr=False)

    def text(self, text: str) -> None:
        """Raises Unread when there is more text than may be read."""
        if text and not text.isspace():
            self.characters -= len(text)
            if self.characters < 0:  # guard: K1.text-cap
                raise Unread(LARGE)
            self.texts.append(text)

    def unpack(self, octets: int) -> None:
        """Raises Unread when more has been unpacked than may be."""
        self.octets -= octets
        if self.octets < 0:  # guard: K1.unpacked-cap
            raise Unread(LARGE)

    def page(self) -> None:
        """Raises Unread at one page too many."""
        self.pages -= 1
        if self.pages < 0:  # guard: K1.page-cap
            raise Unread(LARGE)

    def picture(self, width: int, height: int) -> None:
        """Raises Unread before a picture is decoded that is too large, or one of too many."""
        self.pixels -= width * height
        if width * height > MOST_PIXELS or self.pixels < 0:  # guard: K1.pixel-cap
            raise Unread(LARGE)
