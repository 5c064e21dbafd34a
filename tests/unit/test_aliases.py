"""Ids that callers give: what is recorded in their place, and which may be gone on with."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path

import pytest

from gateway.accounting.audit import alias_key
from gateway.core.aliases import Aliases, is_random

CARD = "4111111111111111"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_an_alias_says_nothing_of_its_id() -> None:
    one, other = Aliases(b"k" * 32), Aliases(b"l" * 32)
    for given in (TRACE, CARD.zfill(32)):
        alias = one.trace_alias(given)
        assert re.fullmatch("[0-9a-f]{32}", alias)
        assert alias == one.trace_alias(given.upper()) != other.trace_alias(given)
        assert CARD not in alias
    assert one.trace_alias(TRACE) != one.call_alias(str(uuid.UUID(TRACE))).replace("-", "")


def test_an_alias_of_an_id_is_one() -> None:
    given = str(uuid.uuid4())
    alias = uuid.UUID(Aliases(b"k" * 32).call_alias(given))
    assert (alias.version, alias.variant) == (8, uuid.RFC_4122)


def test_an_id_has_the_alias_that_older_records_have() -> None:
    alias = Aliases(b"k" * 32).call_alias("01234567-89AB-4cde-8f01-23456789abcd")
    assert alias == "6569a757-70a8-8724-993c-c732f1542b6e"


@pytest.mark.parametrize(
    "digits",
    [CARD.zfill(32), CARD + "a3ce929d0e0e4736", "a3ce929d" + CARD + "0e0e4736", CARD * 2,
     b"John Smith 12345".hex(), b"jane@example.org".hex(), CARD.encode().hex(),
     "0" * 23 + "536904399",
     "1" * 32, CARD, "0" * 32],
)  # fmt: skip
def test_what_could_be_content_does_not_look_drawn_by_lot(digits: str) -> None:
    assert not is_random(digits)


@pytest.mark.parametrize("size", [16, 8])
def test_most_of_what_is_drawn_by_lot_looks_like_it(size: int) -> None:
    looks = [is_random(os.urandom(size).hex().zfill(32 if size == 16 else 16)) for _ in range(4000)]
    assert sum(looks) > 0.93 * len(looks)


def test_traces_of_64_bits_are_gone_on_with() -> None:
    assert is_random("0" * 16 + "a3ce929d0e0e4736")


def test_a_key_is_made_once_and_nobody_else_reads_it(tmp_path: Path) -> None:
    directory = tmp_path / "audit"
    first, second = (alias_key.aliases(directory).trace_alias(TRACE) for _ in range(2))
    known = alias_key.known(directory / "worker-1")
    assert known is not None
    assert first == second == known.trace_alias(TRACE)
    assert (directory / alias_key.NAME).stat().st_mode & 0o777 == 0o600
    assert [p.name for p in directory.iterdir()] == [alias_key.NAME]


def test_without_a_place_for_the_key_ids_have_aliases_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = alias_key.aliases(tmp_path / "file" / "audit")
    assert made.trace_alias(TRACE) != alias_key.aliases(tmp_path / "file" / "audit").trace_alias(
        TRACE
    )
    assert alias_key.known(tmp_path) is None
