"""Notes and checkpoints are those of C2SP, so that others' tools read them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from gateway.accounting.audit import AuditError
from gateway.accounting.audit.note import (
    Checkpoint,
    NoteInvalid,
    PublicKey,
    SigningKey,
    notes_in,
    parse_checkpoint,
)

# The example of Go's golang.org/x/mod/sumdb/note, which the format comes from.
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
TEXT = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
)
NOTE = (
    f"{TEXT}\n"
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6"
    "KE6RyyBwJnAM=\n"
)
# The example of c2sp.org/tlog-checkpoint.
BEHIND = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return SigningKey.from_file(tmp_path / "key", "example.com/log")


def test_a_note_of_another_implementation_is_read() -> None:
    key = PublicKey.parse(PETER)
    assert key.signed_text(NOTE) == TEXT
    assert str(key) == PETER


def test_a_checkpoint_of_the_specification_is_read_and_written_alike() -> None:
    found = Checkpoint.parse(BEHIND)
    assert (found.origin, found.size) == ("example.com/behind-the-sofa", 20852163)
    assert base64.b64encode(found.root) == b"CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="
    assert found.text == BEHIND


def test_a_note_has_the_form_of_the_specification(key: SigningKey) -> None:
    text, _, signature = key.sign("one\n\ntwo\n").rpartition("\n\n")
    assert text == "one\n\ntwo"
    assert signature.startswith("— example.com/log ")
    raw = base64.b64decode(signature.split()[-1])
    assert raw[:4] == key.public.id
    assert len(raw) == 4 + 64
    assert key.public.signed_text(key.sign("one\n\ntwo\n")) == "one\n\ntwo\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("answer", "Answer"),
        ("x08go", "x08gp"),
        ("BwJnAM=", "BwJnAN="),  # the same bytes, written in another way
        ("— Peter", "- Peter"),
        ("PeterNeumann x", "Peterneumann x"),
        ("\n\n", "\n"),
        ("AM=\n", "AM="),
    ],
)
def test_a_note_that_was_changed_is_refused(old: str, new: str) -> None:
    changed = NOTE.replace(old, new)
    assert changed != NOTE
    with pytest.raises(NoteInvalid):
        PublicKey.parse(PETER).signed_text(changed)


@pytest.mark.parametrize(
    "text",
    [
        "", "name", "name+00000000+AAAA", PETER.replace("c74f20a3", "c74f20a4"),
        PETER.replace("Peter", "Paul"), PETER.replace("+ARpc", "+AhpC"), PETER[:-1],
    ],
)  # fmt: skip
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(NoteInvalid):
        PublicKey.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "a\n1\n", "a\n01\nx\n", "a\n-1\nx\n", "a\n1\nAAAA\n", BEHIND[:-1],
        BEHIND.replace("20852163", "\uff12"), BEHIND.replace("\n", "\n\n", 1),
    ],
)  # fmt: skip
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(NoteInvalid):
        Checkpoint.parse(text)


def test_a_checkpoint_of_another_origin_is_refused(key: SigningKey) -> None:
    with pytest.raises(NoteInvalid, match=r"signed as example\.com/log"):
        parse_checkpoint(key.sign(BEHIND), key.public)


def test_notes_behind_each_other_are_told_apart(key: SigningKey) -> None:
    notes = [key.sign(Checkpoint("example.com/log", n, bytes(32)).text) for n in range(3)]
    assert notes_in("\n".join(notes)) == notes
    assert notes_in("") == []


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "key"
    made = SigningKey.from_file(path, "a")
    assert path.stat().st_mode & 0o777 == 0o600
    assert SigningKey.from_file(path, "a").public == made.public
    assert SigningKey.from_file(tmp_path / "other", "a").public != made.public


@pytest.mark.parametrize("held", ["", "zz", "00" * 31, "00" * 33])
def test_what_is_no_signing_key_is_refused_and_left_alone(tmp_path: Path, held: str) -> None:
    path = tmp_path / "key"
    path.write_text(held)
    with pytest.raises(AuditError, match="64 hexadecimal digits"):
        SigningKey.from_file(path, "a")
    assert path.read_text() == held
