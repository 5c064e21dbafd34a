"""The tree is that of RFC 6962, and its proofs are those of RFC 9162."""

from __future__ import annotations

import contextlib
import hashlib
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.accounting.audit.merkle import (
    EMPTY_ROOT,
    Frontier,
    Tree,
    consistent,
    inclusion_root,
    leaf_hash,
    leaf_hashes,
    node_hash,
)

LEAVES = [
    bytes.fromhex(text)
    for text in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]  # fmt: skip
"""The entries that the test vectors of Certificate Transparency's implementations share."""

ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)


def grown(entries: list[bytes]) -> Frontier:
    found = Frontier()
    for entry in entries:
        found.extend([leaf_hash(entry)])
    return found


def by_the_book(entries: list[bytes]) -> bytes:
    """MTH of RFC 6962, section 2.1, word for word."""
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return leaf_hash(entries[0])
    left = 1
    while left * 2 < len(entries):
        left *= 2
    return node_hash(by_the_book(entries[:left]), by_the_book(entries[left:]))


def entries(count: int) -> list[bytes]:
    return [b"entry %d" % number for number in range(count)]


def tree(count: int, cut: int = 0) -> Tree:
    some = entries(count)
    return Tree(grown(some[:cut]), [leaf_hash(entry) for entry in some[cut:]])


@pytest.mark.parametrize(("size", "root"), list(enumerate(ROOTS, 1)))
def test_known_trees_have_their_known_roots(size: int, root: str) -> None:
    assert grown(LEAVES[:size]).root().hex() == root


def test_the_empty_tree_has_the_hash_of_nothing() -> None:
    assert Frontier().root() == EMPTY_ROOT == hashlib.sha256(b"").digest()


@given(st.integers(0, 70), st.data())
def test_a_tree_that_is_cut_has_the_root_of_the_whole(count: int, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, count))
    assert tree(count, cut).root() == by_the_book(entries(count)) == grown(entries(count)).root()


@given(st.lists(st.integers(0, 300), max_size=6))
def test_a_tree_grows_by_any_number_of_leaves_at_once(counts: list[int]) -> None:
    leaves, tree = entries(sum(counts)), Frontier()
    left = iter(leaf_hashes(leaves))
    for count in counts:
        before, size = tree, tree.size
        tree = before.copy()
        tree.extend(islice(left, count))
        assert (before.size, tree.size) == (size, size + count)
    assert tree.root() == by_the_book(leaves)
    assert len(tree.hashes) == tree.size.bit_count()


@given(st.integers(1, 70), st.data())
def test_every_entry_after_the_cut_is_proven_and_no_other(count: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, count))
    index = data.draw(st.integers(0, size - 1))
    cut = data.draw(st.integers(0, index))
    path = tree(count, cut).inclusion(index, size)
    root = by_the_book(entries(size))
    assert inclusion_root(leaf_hash(entries(count)[index]), index, size, path) == root
    assert inclusion_root(leaf_hash(b"another"), index, size, path) != root
    for wrong in ([*path, EMPTY_ROOT], path[:-1] if path else [EMPTY_ROOT]):
        with contextlib.suppress(ValueError):
            assert inclusion_root(leaf_hash(entries(count)[index]), index, size, wrong) != root


@given(st.integers(1, 70), st.data())
def test_a_tree_goes_on_in_a_larger_one_and_in_no_other(count: int, data: st.DataObject) -> None:
    old = data.draw(st.integers(1, count))
    cut = data.draw(st.integers(0, old))
    path = tree(count, cut).consistency(old, count)
    first, second = by_the_book(entries(old)), by_the_book(entries(count))
    assert consistent(old, first, count, second, path)
    assert not consistent(old, EMPTY_ROOT, count, second, path)
    assert not consistent(old, first, count, EMPTY_ROOT, path)
    assert not consistent(old, first, count, second, [*path, EMPTY_ROOT])


def test_nothing_is_proven_of_what_was_removed_or_is_not_there() -> None:
    for index, size in ((3, 10), (10, 10), (5, 11), (-1, 10)):
        with pytest.raises(ValueError, match="no entry"):
            tree(10, 4).inclusion(index, size)
    with pytest.raises(ValueError, match="no proof"):
        tree(10, 4).consistency(3, 10)
    with pytest.raises(ValueError, match="perfect subtrees"):
        Frontier(3, [EMPTY_ROOT])
