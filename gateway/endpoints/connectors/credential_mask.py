"""Takes the credentials of an endpoint out of what the endpoint says of a failure.

Some repeat the headers or the address of what they refuse, and their words reach the caller.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

from gateway.protocols import strictjson

_TOKENS = re.compile(rb"(?i)\bbearer[ +]+[A-Za-z0-9._~+/=-]{8,}|\bsk-[A-Za-z0-9_-]{16,}")
_HIDDEN = b"(credential)"
_SHORTEST = 6  # characters of what is a secret: less stands in any text


class CredentialMask:
    """Of one endpoint."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        """`values` of the headers and the query that go with every call."""
        forms = {form for value in values for text in _parts(value) for form in _forms(text)}
        self._secrets = tuple(sorted(forms, key=len, reverse=True))

    def masked(self, body: bytes) -> bytes:
        for secret in self._secrets:
            body = body.replace(secret, _HIDDEN)
        return _TOKENS.sub(_HIDDEN, body)

    def masked_text(self, text: str) -> str:
        return self.masked(text.encode("utf-8", "replace")).decode("utf-8", "replace")


NO_CREDENTIALS: Final = CredentialMask()


def _parts(value: str) -> Iterator[str]:
    """The value, and what stands behind its scheme (`Bearer`)."""
    for text in {value, value.rpartition(" ")[2]}:
        if len(text) >= _SHORTEST:
            yield text


def _forms(text: str) -> Iterator[bytes]:
    """As it is, in JSON, in a URL, and in base64 at any place of a longer text."""
    plain = text.encode("utf-8", "replace")
    yield plain
    yield text.encode("latin-1", "replace")
    yield strictjson.dumps(text)[1:-1]
    yield quote(text, safe="").encode()
    yield quote_plus(text).encode()
    for before in range(3):
        encoded = b64encode(bytes(before) + plain)
        first, last = -(-before * 8 // 6), (before + len(plain)) * 8 // 6
        yield encoded[first:last]
        yield encoded[first:last].replace(b"+", b"-").replace(b"/", b"_")
