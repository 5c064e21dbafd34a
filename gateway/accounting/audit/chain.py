"""The form of one line, and what binds it to the line before.

A line is a JSON object with `seq` first and `hash` last. The hash is SHA-256 over the hash of the
line before (32 bytes, zeros before the first) and over the line's own bytes without `hash`. Nothing
is parsed and written again to check it: what is hashed is what stands in the file.
"""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from gateway.accounting.audit.merkle import Frontier, leaf_hash, leaf_hashes

NO_HASH = bytes(32)
_TAIL = b',"hash":"'
_TAIL_BYTES = len(_TAIL) + 64 + len(b'"}')


class BadLine(ValueError):
    """What is wrong with a line."""


def checked(line: bytes, seq: int, before: bytes) -> bytes:
    """The hash of a line that follows on `before`. Raises BadLine."""
    body, tail = line[:-_TAIL_BYTES] + b"}", line[-_TAIL_BYTES:]
    if not tail.startswith(_TAIL) or not tail.endswith(b'"}'):
        raise BadLine("no line of the audit: it does not end with a hash")
    if not line.startswith(b'{"seq":%d,' % seq):  # guard: B4.line-number
        raise BadLine(f"record {seq} is due here, and another one stands here")
    digest = sha256(before + body).digest()  # guard: B4.line-hash -> digest = sha256(body).digest()
    if tail != b'%b%b"}' % (_TAIL, hexlify(digest)):  # guard: B4.edited-line
        raise BadLine(f"the hash of record {seq} does not fit it and the record before")
    return digest


@dataclass(slots=True)
class ChainHead:
    """Where a chain stands: what the next line is made with."""

    hash: bytes
    tree: Frontier

    @classmethod
    def empty(cls) -> ChainHead:
        return cls(NO_HASH, Frontier())

    @property
    def size(self) -> int:
        """Of the tree, which is the number of the next record."""
        return self.tree.size

    def copy(self) -> ChainHead:
        return ChainHead(self.hash, self.tree.copy())

    def add(self, records: Sequence[bytes]) -> bytes:
        """The lines of these records, JSON objects that are not empty, with their ends; the head
        moves on."""
        tree, before, lines = self.tree, self.hash, list[bytes]()
        for seq, record in enumerate(records, tree.size):
            body = b'{"seq":%d,' % seq + record[1:]
            # guard: B4.line-hash -> before = sha256(body).digest()
            before = sha256(before + body).digest()
            lines.append(b'%b,"hash":"%b"}' % (body[:-1], hexlify(before)))
        self.hash = before
        tree.extend(leaf_hashes(lines))
        lines.append(b"")
        return b"\n".join(lines)

    def follow(self, line: bytes) -> None:
        """Move on over a line (without its end) that was written before. Raises BadLine."""
        self.hash = checked(line, self.tree.size, self.hash)
        self.tree.extend([leaf_hash(line)])
