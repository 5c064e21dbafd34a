"""B6: what an issued key looks like, and what is kept of it."""

from __future__ import annotations

import hashlib
import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.key_form import SECRET_BYTES, key_digest, new_key, public_id

# The same in every process: tests are known by their parameters.
KEY, KEY_ID = new_key(Random("a key").randbytes)


@given(st.binary(min_size=8 + SECRET_BYTES, max_size=8 + SECRET_BYTES))
def test_every_key_has_one_form_and_names_its_id(lots: bytes) -> None:
    left = bytearray(lots)

    def drawn(count: int) -> bytes:
        found, left[:] = bytes(left[:count]), left[count:]
        return found

    key, key_id = new_key(drawn)
    assert re.fullmatch(r"sk-spw-[a-z2-7]{12}-[0-9A-Za-z]{49}", key)
    assert public_id(key) == key_id


def test_all_random_bits_are_in_the_key() -> None:
    """256 of the secret: two that differ in their first or last bit are two keys."""
    keys = set()
    for secret in (bytes(32), b"\x80" + bytes(31), bytes(31) + b"\x01", b"\xff" * 32):
        lots = iter((bytes(8), secret))
        keys.add(new_key(lambda count, lots=lots: next(lots))[0])  # type: ignore[misc]
    assert len(keys) == 4


@given(st.integers(0, len(KEY) - 1), st.sampled_from("abcXYZ059-_ "))
def test_a_key_with_one_wrong_character_is_none(at: int, put: str) -> None:
    wrong = KEY[:at] + put + KEY[at + 1 :]
    assert wrong == KEY or public_id(wrong) is None


@pytest.mark.parametrize(
    "text", ["", "sk-spw-", KEY[:-1], KEY + "a", KEY.upper(), f" {KEY}", f"{KEY}\n", "é" * 60]
)
def test_what_is_no_key_has_no_id(text: str) -> None:
    assert public_id(text) is None


def test_a_key_is_kept_as_its_sha_256() -> None:
    assert key_digest(KEY) == hashlib.sha256(KEY.encode()).digest()
