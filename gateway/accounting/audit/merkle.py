"""The hash tree of RFC 6962, section 2.1, over the lines of the audit.

A node over [a, b) has a left half that is the largest power of two below b - a. Leaves are hashed
behind a 0 byte and nodes behind a 1 byte, so that neither passes for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from operator import add, methodcaller
from typing import Any, Final

EMPTY_ROOT = sha256(b"").digest()
_ROW: Final = 256  # leaves that are folded into the tree at once

_digest: Final[Callable[[Any], bytes]] = methodcaller("digest")
_leaf_text: Final[Callable[[bytes], bytes]] = partial(add, b"\x00")
_node_text: Final[Callable[[bytes], bytes]] = partial(add, b"\x01")


def leaf_hashes(entries: Iterable[bytes]) -> Iterator[bytes]:
    return map(_digest, map(sha256, map(_leaf_text, entries)))


def leaf_hash(entry: bytes) -> bytes:
    return sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """The roots of the perfect subtrees that a tree is made of, the largest first: all that is
    needed to let it grow and to know its root. New leaves gather until a row of them is folded into
    the subtrees: a row at once takes a tenth of the interpreter's time."""

    __slots__ = ("_hashes", "_leaves", "size")

    def __init__(
        self, size: int = 0, hashes: Iterable[bytes] = (), leaves: Iterable[bytes] = ()
    ) -> None:
        """The subtrees over the first `size` leaves, and the hashes of the leaves behind them."""
        self._hashes, self._leaves = list(hashes), list(leaves)
        self.size = size + len(self._leaves)
        if len(self._hashes) != size.bit_count():
            raise ValueError(f"a tree of {size} has {size.bit_count()} perfect subtrees")

    @property
    def hashes(self) -> list[bytes]:
        self._fold()
        return self._hashes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frontier):
            return NotImplemented
        return (self.size, self.hashes) == (other.size, other.hashes)

    __hash__ = None  # type: ignore[assignment]  # it grows

    def copy(self) -> Frontier:
        return Frontier(self.size - len(self._leaves), self._hashes, self._leaves)

    def extend(self, leaves: Iterable[bytes]) -> None:
        """By the hashes of the next leaves."""
        before = len(self._leaves)
        self._leaves.extend(leaves)
        self.size += len(self._leaves) - before
        if len(self._leaves) >= _ROW:
            self._fold()

    def _fold(self) -> None:
        """One level of the tree after the other, from the leaves up. Bit k of the size says whether
        a subtree of 2^k leaves waits for the one to its right."""
        row, hashes, rest = self._leaves, self._hashes, list[bytes]()
        size, self._leaves = self.size - len(row), []
        while row:
            if size & 1:
                row.insert(0, hashes.pop())
            if len(row) & 1:
                rest.append(row.pop())
            row = list(map(_digest, map(sha256, map(_node_text, map(add, row[::2], row[1::2])))))
            size >>= 1
        hashes.extend(reversed(rest))

    def root(self) -> bytes:
        if not self.size:
            return EMPTY_ROOT
        *before, root = self.hashes
        for left in reversed(before):
            root = node_hash(left, root)
        return root


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of which the leaves before `cut` are known only by their perfect subtrees: what is
    left of it once old records have been removed."""

    cut: Frontier
    leaves: Sequence[bytes]  # hashes, from the cut on

    @property
    def size(self) -> int:
        return self.cut.size + len(self.leaves)

    def root(self, size: int | None = None) -> bytes:
        end = self.size if size is None else size
        return self._over(0, end) if end else EMPTY_ROOT

    def inclusion(self, index: int, size: int) -> list[bytes]:
        """PATH(index, D[size]), the lowest sibling first."""
        if not self.cut.size <= index < size <= self.size:
            raise ValueError(f"no entry {index} in a tree of {size}")
        start, end = 0, size
        path: list[bytes] = []
        while end - start > 1:
            middle = start + _left(end - start)
            if index < middle:
                path.append(self._over(middle, end))
                end = middle
            else:
                path.append(self._over(start, middle))
                start = middle
        return path[::-1]

    def consistency(self, old: int, new: int) -> list[bytes]:
        """PROOF(old, D[new])."""
        if not 0 < old <= new <= self.size or old < self.cut.size:
            raise ValueError(f"no proof from {old} to {new}")
        start, end, whole = 0, new, True
        path: list[bytes] = []
        while old != end:
            middle = start + _left(end - start)
            if old <= middle:
                path.append(self._over(middle, end))
                end = middle
            else:
                path.append(self._over(start, middle))
                start, whole = middle, False
        if not whole:
            path.append(self._over(start, end))
        return path[::-1]

    def _over(self, start: int, end: int) -> bytes:
        if start >= self.cut.size:
            return _root(self.leaves[start - self.cut.size : end - self.cut.size])
        if (known := self._known(start, end)) is not None:
            return known
        middle = start + _left(end - start)
        return node_hash(self._over(start, middle), self._over(middle, end))

    def _known(self, start: int, end: int) -> bytes | None:
        """The subtree is one of those before the cut."""
        at = 0
        for digest in self.cut.hashes:
            width = 1 << ((self.cut.size - at).bit_length() - 1)
            if (at, at + width) == (start, end):
                return digest
            at += width
        if end <= self.cut.size and end - start == 1:
            raise ValueError(f"entry {start} is no longer kept")
        return None


def _left(count: int) -> int:
    """The largest power of two below `count`."""
    return 1 << ((count - 1).bit_length() - 1)


def _root(leaves: Sequence[bytes]) -> bytes:
    root = Frontier()
    root.extend(leaves)
    return root.root()


def inclusion_root(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """The root that `path` leads to (RFC 9162, section 2.1.3.2). Raises ValueError."""
    if not 0 <= index < size:
        raise ValueError("the index is not in the tree")
    at, last, root = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            raise ValueError("the path is too long")
        if at & 1 or at == last:
            root = node_hash(sibling, root)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            root = node_hash(root, sibling)
        at, last = at >> 1, last >> 1
    if last:
        raise ValueError("the path is too short")
    return root


def consistent(old: int, old_root: bytes, new: int, new_root: bytes, path: Sequence[bytes]) -> bool:
    """Whether the tree of `old` is the beginning of that of `new` (RFC 9162, section 2.1.4.2)."""
    if old == new:
        return not path and old_root == new_root
    if not 0 < old < new or not path:
        return False
    hashes = [old_root, *path] if old & (old - 1) == 0 else list(path)
    at, last = old - 1, new - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    first = second = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            first, second = node_hash(sibling, first), node_hash(sibling, second)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            second = node_hash(second, sibling)
        at, last = at >> 1, last >> 1
    return last == 0 and (first, second) == (old_root, new_root)
