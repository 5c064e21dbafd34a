"""What callers upload."""

from __future__ import annotations

from dataclasses import field

from gateway.core.structs import value


@value
class UploadedFile:
    """A file in the form of a call."""

    name: str  # of its field
    filename: str = field(repr=False)
    media_type: str = field(repr=False)
    content: bytes = field(repr=False)
    holds: str  # what nobody can read of it, such as 'audio'; empty: its text is read elsewhere
