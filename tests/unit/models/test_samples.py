"""What graphs are run on: random rows within the declared ranges, and the data set's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.models import declaration, samples
from gateway.models.failures import WrongModel
from tests.unit.models import graphs
from tests.unit.models.declared_text import GRAPH, TEXT
from tests.unit.models.repositories import added, with_gate

RANGES = st.tuples(st.integers(1, 40), st.integers(0, 300), st.integers(0, 5000))


@given(RANGES, RANGES, st.integers(0, 2**32 - 1))
def test_random_batches_are_within_the_declared_ranges(
    batch: tuple[int, int, int], pieces: tuple[int, int, int], seed: int
) -> None:
    def told(sizes: tuple[int, int, int]) -> str:
        low, more, most = sizes
        return f"{{min: {low}, opt: {low + more}, max: {low + more + most}}}"

    text = TEXT.replace("{min: 1, opt: 4, max: 16}", told(batch))
    text = text.replace("{min: 1, opt: 16, max: 64}", told(pieces))
    text = text.replace("dims: [pieces]", "dims: [pieces], between: [3, 9]")
    found = list(samples.random_batches(declaration.parse(text), seed))
    assert len(found) == 9
    for sample in found:
        ids = sample.feed["input_ids"]
        assert ids.dtype == np.int64
        assert 1 <= len(ids) <= sum(batch)
        assert 1 <= ids.shape[1] <= sum(pieces)
        assert 3 <= int(ids.min()) <= int(ids.max()) <= 9
        assert ids.size <= 1024


def test_the_same_seed_gives_the_same_rows() -> None:
    declared = declaration.parse(GRAPH)
    one, other = (list(samples.random_batches(declared, 7)) for _ in range(2))
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left.feed["rows"], right.feed["rows"])


def test_texts_are_cut_at_the_largest_declared_length(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    graphs.tokenizer(tmp_path / "1/tokenizer.json")
    feed = samples.Cutter(tmp_path, declaration.parse(TEXT))(["spill " * 100, "home"])
    assert feed["input_ids"].shape == (2, 64)


def test_texts_are_padded_with_the_tokenizers_own_token(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    at = graphs.tokenizer(tmp_path / "1/tokenizer.json")
    document = json.loads(at.read_text())
    words = document["model"]["vocab"]
    document["model"]["vocab"] = {w: n for w, n in words.items() if w != "[PAD]"} | {"<pad>": 10}
    at.write_text(json.dumps(document))
    feed = samples.Cutter(tmp_path, declaration.parse(TEXT))(["spill the cloud", "water"])
    assert feed["input_ids"][1].tolist() == [6, 10, 10]


def test_an_npz_of_other_arrays_is_told(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    declared = with_gate(directory)
    np.savez(directory / "rows.npz", columns=np.ones((2, 4), np.float32))
    with pytest.raises(WrongModel, match="must hold rows and may hold label"):
        samples.data_set(directory, declared)
    (directory / "rows.npz").write_bytes(b"PK none")
    with pytest.raises(WrongModel, match=r"is no whole \.npz"):
        samples.data_set(directory, declared)


def test_a_data_set_is_cut_into_batches_and_loses_no_row(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    found = samples.data_set(directory, with_gate(directory))
    assert found.rows == 64
    assert {len(sample.feed["rows"]) for sample in found.batches} == {8}
    assert found.batches[1].name == "rows 8 to 16"
