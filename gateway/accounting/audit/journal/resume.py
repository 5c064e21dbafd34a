"""A chain that is there when a gateway starts: read, and compared with what was signed of it.

Whatever does not fit is not built upon: the gateway does not start then, because a chain that goes
on over a break would hide it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from gateway.accounting.audit import AuditError
from gateway.accounting.audit.chain import BadLine, ChainHead
from gateway.accounting.audit.journal.segments import Header, JournalSegment, read_lines
from gateway.accounting.audit.merkle import EMPTY_ROOT
from gateway.accounting.audit.note import (
    Checkpoint,
    NoteInvalid,
    PublicKey,
    notes_in,
    parse_checkpoint,
)

_KEEP = (
    "The audit was changed. Keep the directory as evidence (`spillway audit verify` says more), "
    "and give the gateway another audit.directory"
)
_TIME = re.compile(rb'"time":([0-9.]+)')


@dataclass(slots=True)
class ResumedChain:
    """What the newest segment has."""

    head: ChainHead
    signed: int  # the size of the last checkpoint
    good_bytes: int = 0  # of its file
    rest: bytes = b""  # behind them: the beginning of a line
    last_s: float = 0.0  # when the last record was written (Unix time)


def resume(segment: JournalSegment, header: Header, key: PublicKey) -> ResumedChain:
    """Read the newest segment. Raises AuditError where it is not what was written."""
    last = _last_checkpoint(segment, key)
    chain = ResumedChain(header.before.copy(), last.size)
    for number, line in enumerate(read_lines(segment.path), 1):
        if not line.endswith(b"\n"):
            chain.rest = line
            break
        try:
            # guard: B4.edited-chain -> chain.head.tree.extend([line[:32]])
            chain.head.follow(line[:-1])
        except BadLine as exc:
            raise AuditError(f"{segment.path}, line {number}: {exc}. {_KEEP}") from None
        chain.good_bytes += len(line)
        chain.last_s = max(chain.last_s, _line_time_s(line))
        # guard: B4.rehashed-chain
        if chain.head.size == last.size and chain.head.tree.root() != last.root:
            raise AuditError(
                f"{segment.path}: the records up to line {number} are not those that "
                f"{segment.checkpoints.name} was signed over. {_KEEP}"
            )
    if last.size > chain.head.size:  # guard: B4.short-chain
        raise AuditError(
            f"{segment.path}: {last.size - chain.head.size} records that were there when "
            f"{segment.checkpoints.name} was signed are missing at its end. {_KEEP}"
        )
    return chain


def unwritten(left: bytes, head: ChainHead, chain: str) -> tuple[bytes, ChainHead]:
    """The lines of a spool that the chain has not yet, and the chain's head with them. The last
    line may lack its end: nobody was told that it is durable. Raises AuditError."""
    lines = [
        line
        for line in left.splitlines(keepends=True)
        if line.endswith(b"\n") and json.loads(line)["seq"] >= head.size
    ]
    head = head.copy()
    try:
        for line in lines:
            head.follow(line[:-1])
    except BadLine as exc:
        raise AuditError(f"the spool of chain {chain} does not go on it: {exc}") from None
    return b"".join(lines), head


def _last_checkpoint(segment: JournalSegment, key: PublicKey) -> Checkpoint:
    text = segment.checkpoints.read_text() if segment.checkpoints.exists() else ""
    for note in notes_in(text)[-1:]:
        try:
            return parse_checkpoint(note, key)
        except NoteInvalid as exc:
            raise AuditError(f"{segment.checkpoints}: {exc}. {_KEEP}") from None
    return Checkpoint(key.name, 0, EMPTY_ROOT)


def _line_time_s(line: bytes) -> float:
    """Of a record; 0 where it has none. Not parsed: a segment has 100,000 of them."""
    match = _TIME.search(line)
    return float(match[1]) if match else 0.0
