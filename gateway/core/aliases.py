"""What stands in records in the place of ids that a caller gave.

A trace id is 32 hexadecimal digits and a UUID is, too: a card's number fits into either, and what
is on record stays there. So of an id that a caller gave a keyed digest is recorded. The same id has
the same alias as long as the key is the same: whoever has both finds the call
(`spillway audit query --trace`), and whoever has the records alone learns nothing.

Where an id itself is needed, to go on a caller's trace, it is taken over only if it looks drawn by
lot (`is_random`).
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

_KEY_BYTES: Final = 32
_ID_BYTES: Final = 16
_TRACE, _CALL = b"trace", b"call"
_VARIANT: Final = "89ab"  # by the two bits behind those that say 10
_DECIMAL: Final = re.compile(r"[0-9]{12,}")  # the shortest that a card's number can be
_LEADING: Final = 8  # zeros before an id of half the length, as some tracers write theirs
_LEAST_DIGITS: Final = 14
_MOST_DECIMAL: Final = 0.9  # of the digits; of a random one it is five in eight
_WRITTEN: Final = re.compile(rb"[A-Za-z0-9 @._-]{7}")


class Aliases:
    """Of one key."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        """`key`: random, and kept from whoever reads the records."""
        self._key = key[:_KEY_BYTES]

    def trace_alias(self, trace: str) -> str:
        """32 hexadecimal digits for as many."""
        return self._digest(_TRACE, trace.lower())

    def call_alias(self, request_id: str) -> str:
        """A UUID for one, of version 8 (RFC 9562, section 5.8): what is in it is the maker's."""
        digits = self._digest(_CALL, request_id.lower())
        variant = _VARIANT[int(digits[16], 16) & 3]
        return (
            f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
        )

    def _digest(self, kind: bytes, given: str) -> str:
        made = hashlib.blake2b(given.encode(), digest_size=_ID_BYTES, key=self._key, person=kind)
        return made.hexdigest()


def is_random(digits: str) -> bool:
    """Whether hexadecimal digits look drawn by lot: no decimal number long enough for a card's, not
    almost all of them decimal, and no text in ASCII."""
    rest = digits.lstrip("0") if digits.startswith("0" * _LEADING) else digits
    if len(rest) < _LEAST_DIGITS:
        return False
    decimal = sum(map(str.isdecimal, rest))
    if decimal > _MOST_DECIMAL * len(rest) or _DECIMAL.search(rest):
        return False
    octets = bytes.fromhex(rest if len(rest) % 2 == 0 else f"0{rest}")
    return _WRITTEN.search(octets) is None
