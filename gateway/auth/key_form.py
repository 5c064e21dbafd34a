"""What an issued key looks like: `sk-spw-<id>-<secret><check>`.

The id names the key's record, so that finding it costs the same among ten keys and ten million;
it is no secret. The secret is 256 random bits. The check is a CRC-32 of all that stands before it:
a key that was cut off or mistyped, or a string that only looks like one, is told without a look at
the store, and scanners for leaked secrets can tell keys from noise.

A key is kept as its SHA-256. Slow hashes (scrypt, Argon2) protect what people choose, because they
choose among few; nobody can try 2**256 secrets whatever a try costs, and each call would pay.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable

from gateway.config import ISSUED_PREFIX

PREFIX = ISSUED_PREFIX
SECRET_BYTES = 32
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_DIGITS = "abcdefghijklmnopqrstuvwxyz234567"
_ID_LENGTH, _SECRET_LENGTH, _CHECK_LENGTH = 12, 43, 6  # 60, 256 and 32 bits
_FORM = re.compile(
    rf"{PREFIX}([{_ID_DIGITS}]{{{_ID_LENGTH}}})-[0-9A-Za-z]{{{_SECRET_LENGTH + _CHECK_LENGTH}}}"
)


def new_key(random_bytes: Callable[[int], bytes]) -> tuple[str, str]:
    """A key and its id."""
    number = int.from_bytes(random_bytes(8))
    key_id = "".join(_ID_DIGITS[(number >> (5 * at)) & 31] for at in range(_ID_LENGTH))
    secret = _written(int.from_bytes(random_bytes(SECRET_BYTES)), _SECRET_LENGTH)
    begun = f"{PREFIX}{key_id}-{secret}"
    return begun + _check(begun), key_id


def public_id(key: str) -> str | None:
    """None: it cannot be a key that was ever issued."""
    match = _FORM.fullmatch(key)
    # guard: B6.key-checksum minus 2
    if match is None or _check(key[:-_CHECK_LENGTH]) != key[-_CHECK_LENGTH:]:
        return None
    return match.group(1)


def stated_id(key: str) -> str:
    """The id in what may be a key: its digest tells whether it is one."""
    return key[len(PREFIX) : len(PREFIX) + _ID_LENGTH]


def key_digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _check(begun: str) -> str:
    return _written(zlib.crc32(begun.encode("ascii")), _CHECK_LENGTH)


def _written(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
