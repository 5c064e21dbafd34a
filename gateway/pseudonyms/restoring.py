"""Originals back in the place of surrogates, also when a stream cuts these in pieces.

What is held back is only what could still become a surrogate: the longest end of the text that one
of them begins with. No form of a surrogate is part of another (`ledger`), so a form that stands
whole in the text is never the middle of a longer one, and the pieces of a text can be cut anywhere
without a difference.

The search runs on UTF-8: surrogates are ASCII, so no character is ever cut, and lowering bytes
changes no length. It builds no regular expression, since `re` would keep it beyond the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gateway.pseudonyms.ledger import Form


class Restorer:
    """Puts back what one ledger holds."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self._forms = {form.seen.lower().encode(): form for form in forms}
        self._beginnings = {seen[:n] for seen in self._forms for n in range(1, len(seen))}
        self._longest = max(map(len, self._beginnings), default=0)

    def whole(self, text: str) -> str:
        data = _bytes(text)
        return _text(self._restored(data, self._found(data)))

    def ready(self, text: str) -> tuple[str, str]:
        """The text so far, restored, and the end of it that has to wait for more."""
        data = _bytes(text)
        found = list(self._found(data))
        cut = len(data) - self._begun(data[found[-1][1] if found else 0 :].lower())
        return _text(self._restored(data[:cut], iter(found))), _text(data[cut:])

    def forget(self) -> None:
        self._forms.clear()
        self._beginnings.clear()
        self._longest = 0

    def _begun(self, lowered: bytes) -> int:
        """How many bytes at the end may be the beginning of a surrogate."""
        for length in range(min(self._longest, len(lowered)), 0, -1):
            if lowered[-length:] in self._beginnings:
                return length
        return 0

    def _found(self, data: bytes) -> Iterator[tuple[int, int, Form]]:
        """Surrogates from left to right; where two overlap, the first."""
        lowered, places = data.lower(), []
        for seen, form in self._forms.items():
            at = lowered.find(seen)
            while at >= 0:
                places.append((at, at + len(seen), form))
                at = lowered.find(seen, at + 1)
        end = 0
        for place in sorted(places, key=lambda p: p[0]):
            if place[0] >= end:
                end = place[1]
                yield place

    def _restored(self, data: bytes, found: Iterator[tuple[int, int, Form]]) -> bytes:
        pieces, at = [], 0
        for start, end, form in found:
            pieces += [data[at:start], _bytes(form.original_as(data[start:end].decode()))]
            at = end
        return b"".join((*pieces, data[at:]))


class Channel:
    """One text that comes in pieces."""

    def __init__(self, restorer: Restorer) -> None:
        self._restorer = restorer
        self._held = ""

    @property
    def held(self) -> bool:
        return bool(self._held)

    def feed(self, piece: str) -> str:
        ready, self._held = self._restorer.ready(self._held + piece)
        return ready

    def flush(self) -> str:
        """What was held when no more will come: the beginning of nothing."""
        left, self._held = self._held, ""
        return left


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # an answer may cut an emoji's halves apart


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
