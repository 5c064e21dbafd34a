"""That one record is in the audit, for somebody who has the public key and nothing else.

A proof is a text of the form c2sp.org/tlog-proof@v1: the record's number, the hashes beside its
path to the root, and a signed checkpoint. Ours puts the record itself in the `extra` line, so that
the file is all that has to be handed over.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.accounting.audit import AuditError
from gateway.accounting.audit.journal.segments import read_header, read_lines, segments
from gateway.accounting.audit.merkle import Tree, consistent, inclusion_root, leaf_hash
from gateway.accounting.audit.note import (
    Checkpoint,
    NoteInvalid,
    PublicKey,
    notes_in,
    parse_checkpoint,
)

_HEAD = "c2sp.org/tlog-proof@v1"
_FORM = "not a proof: it begins with c2sp.org/tlog-proof@v1, extra, index, hashes, a checkpoint"


class ProofInvalid(AuditError):
    pass


@dataclass(frozen=True, slots=True)
class HashedAudit:
    """A whole audit in memory, as hashes."""

    tree: Tree
    key: PublicKey
    notes: dict[int, str]  # signed, by size

    @classmethod
    def from_directory(cls, directory: Path, key: PublicKey) -> HashedAudit:
        existing = segments(directory)
        if not existing:
            raise AuditError(f"{directory}: there are no records")
        leaves = [
            leaf_hash(line[:-1])
            for segment in existing
            for line in read_lines(segment.path)
            if line.endswith(b"\n")
        ]
        tree = Tree(read_header(existing[0]).before.tree, leaves)
        return cls(tree, key, signed_notes(directory, key))

    def note_after(self, seq: int) -> str:
        """The first checkpoint that counts the record."""
        for size in sorted(self.notes):
            if size > seq:
                return self.notes[size]
        raise AuditError(
            f"record {seq} is not in a signed checkpoint yet: wait for audit.checkpoint_s, or stop "
            "the gateway"
        )

    def inclusion(self, seq: int, line: bytes, note: str | None = None) -> str:
        note = note or self.note_after(seq)
        size = parse_checkpoint(note, self.key).size
        try:
            path = self.tree.inclusion(seq, size)
        except ValueError as exc:
            raise AuditError(
                f"{exc}: the checkpoint was signed before or after its time here"
            ) from exc
        hashes = "".join(f"{base64.b64encode(h).decode()}\n" for h in path)
        extra = base64.b64encode(line).decode()
        return f"{_HEAD}\nextra {extra}\nindex {seq}\n{hashes}\n{note}"

    def consistency(self, old: Checkpoint, new: Checkpoint) -> list[bytes]:
        try:
            return self.tree.consistency(old.size, new.size)
        except ValueError as exc:
            raise AuditError(str(exc)) from exc


def signed_notes(directory: Path, key: PublicKey) -> dict[int, str]:
    """By the number of records. Raises NoteInvalid."""
    notes: dict[int, str] = {}
    for segment in segments(directory):
        text = segment.checkpoints.read_text() if segment.checkpoints.exists() else ""
        for note in notes_in(text):
            notes[parse_checkpoint(note, key).size] = note
    return notes


def lines_with(directory: Path, call_id: str) -> list[tuple[int, bytes]]:
    """The records of a call: first the one with its decision, then that of its end if it streamed,
    and what was written before it left. Or of a number."""
    matches: list[tuple[int, bytes]] = []
    for segment in segments(directory):
        for line in read_lines(segment.path):
            if line.endswith(b"\n") and _is_record_for(line, call_id):
                matches.append((int(json.loads(line)["seq"]), line[:-1]))
    return sorted(matches, key=lambda one: json.loads(one[1])["kind"] == "intent")


def _is_record_for(line: bytes, call_id: str) -> bool:
    if call_id.isdigit():
        return line.startswith(b'{"seq":%d,' % int(call_id))
    return call_id.encode() in line and json.loads(line).get("id") == call_id


def checked(text: str, key: PublicKey) -> tuple[dict[str, Any], Checkpoint]:
    """The record that a proof proves, and the checkpoint that it is in. Raises AuditError."""
    head, blank, note = text.partition("\n\n")
    lines = head.split("\n")
    if not blank or len(lines) < 3 or lines[0] != _HEAD:
        raise ProofInvalid(_FORM)
    extra, index = lines[1].removeprefix("extra "), lines[2].removeprefix("index ")
    if extra == lines[1] or index == lines[2] or not (index.isascii() and index.isdigit()):
        raise ProofInvalid(_FORM)
    try:
        line = base64.b64decode(extra, validate=True)
        path = [base64.b64decode(h, validate=True) for h in lines[3:]]
    except binascii.Error:
        raise ProofInvalid(_FORM) from None
    checkpoint = parse_checkpoint(note, key)
    try:
        root = inclusion_root(leaf_hash(line), int(index), checkpoint.size, path)
    except ValueError as exc:
        raise ProofInvalid(f"the proof does not hold: {exc}") from None
    if root != checkpoint.root:  # guard: B4.proof-root
        raise ProofInvalid("the proof does not hold: it leads to another root than the signed one")
    try:
        record = json.loads(line)
    except ValueError:
        raise ProofInvalid("what is proven is no record") from None
    if record.get("seq") != int(index):
        raise ProofInvalid("the record has another number than the proof")
    return record, checkpoint


def consistency_text(held: HashedAudit, old: str, new: str) -> str:
    """That the chain of one signed checkpoint goes on in that of another: JSON with both."""
    first, second = parse_checkpoint(old, held.key), parse_checkpoint(new, held.key)
    path = held.consistency(first, second)
    return json.dumps(
        {"old": old, "new": new, "path": [base64.b64encode(h).decode() for h in path]}, indent=2
    )


def checked_consistency(text: str, key: PublicKey) -> tuple[Checkpoint, Checkpoint]:
    """Raises AuditError."""
    try:
        document = json.loads(text)
        old, new = (parse_checkpoint(str(document[k]), key) for k in ("old", "new"))
        path = [base64.b64decode(h, validate=True) for h in document["path"]]
    except (ValueError, KeyError, TypeError):
        raise ProofInvalid("not a proof of consistency: JSON with old, new and path") from None
    if not consistent(old.size, old.root, new.size, new.root, path):
        raise ProofInvalid(
            f"the chain of {new.size} records does not begin with that of {old.size}"
        )
    return old, new


def single_note(text: str) -> str:
    """The last checkpoint in a text."""
    notes = notes_in(text)
    if not notes:
        raise NoteInvalid("no checkpoint is in it")
    return notes[-1]
