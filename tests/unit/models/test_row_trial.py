"""Rows that influence each other are found whatever the influence is; others are not suspected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gateway.endpoints.batch_rows import row_trial
from gateway.endpoints.batch_rows.row_trial import ROWS, TOLERANCE, Batch, batches
from gateway.endpoints.batch_rows.rows import INDEPENDENT as UNCOUPLED
from gateway.endpoints.batch_rows.rows import Rows, RowVerdict

Array = npt.NDArray[Any]
Function = Callable[[Array], Array]
WIDTH = 4


def softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True), x.dtype)


def ranks(x: Array) -> Array:
    return np.asarray(x[:, 0].argsort().argsort()[:, None], np.int64)


def counts(x: Array) -> Array:
    """How often each row is in the batch."""
    return np.asarray([[sum(np.array_equal(a, b) for b in x)] for a in x], np.int32)


def without_doubles(x: Array) -> Array:
    return np.unique(x, axis=0)


def first_decides(x: Array) -> Array:
    return np.repeat(x[:1], len(x), axis=0)


def last_decides(x: Array) -> Array:
    return np.repeat(x[-1:], len(x), axis=0)


def eight_bits(x: Array) -> Array:
    """As a dynamically quantized graph rounds: by the largest value of the whole batch."""
    step = np.abs(x).max() / 127
    return np.asarray(np.round(x / step) * step, x.dtype)


COUPLED: Mapping[str, Function] = {
    "softmax": lambda x: softmax(x, 0),
    "mean": lambda x: x - x.mean(axis=0),
    "mean of all rows alone": lambda x: np.broadcast_to(x.mean(axis=0), x.shape),
    "a hundredth of the mean": lambda x: x + np.float32(0.01) * x.mean(axis=0),
    "sum": lambda x: x / np.abs(x).sum(),
    "largest": lambda x: x - x.max(axis=0),
    "sort": lambda x: np.sort(x, axis=0),
    "sort by one column": lambda x: x[x[:, 0].argsort()],
    "order": lambda x: x.argsort(axis=0),
    "rank": ranks,
    "argmax": lambda x: x.argmax(axis=0)[None].repeat(len(x), 0),
    "best row": lambda x: x == x.max(axis=0),
    "above the mean": lambda x: x > x.mean(axis=0),
    "cumulative sum": lambda x: x.cumsum(axis=0),
    "cumulative sum from behind": lambda x: x[::-1].cumsum(axis=0)[::-1],
    "cumulative maximum": lambda x: np.maximum.accumulate(x, axis=0),
    "statistics": lambda x: (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5),
    "largest variance": lambda x: x / np.sqrt(1 + x.var()),
    "doubles counted": counts,
    "doubles dropped": without_doubles,
    "first row decides": first_decides,
    "last row decides": last_decides,
    "row before": lambda x: np.roll(x, 1, axis=0),
    "backwards": lambda x: x[::-1],
    "number of rows": lambda x: x / len(x),
    "place in the batch": lambda x: x + np.arange(len(x), dtype=x.dtype)[:, None],
    "attention": lambda x: softmax(x @ x.T, 1) @ x,
    "rounded by the batch": eight_bits,
    "even batches alone": lambda x: x if len(x) % 2 else x + x.mean(axis=0),
    "batches of more than two": lambda x: x if len(x) < 3 else x[::-1],
    "the largest batch alone": lambda x: x if len(x) < 16 else x[::-1],
    "pairs alone": lambda x: x if len(x) != 2 else x[::-1],
    "a row more": lambda x: x if len(x) < 2 else np.concatenate([x, x[:1]]),
    "no number in a batch": lambda x: x if len(x) < 2 else np.full_like(x, np.nan),
    "text of the batch": lambda x: np.array([[b"%d" % len(x)]] * len(x), object),
    "one row for all": lambda x: x.sum(axis=0, keepdims=True),
}
INDEPENDENT: Mapping[str, Function] = {
    "identity": lambda x: x,
    "softmax of a row": lambda x: softmax(x, 1),
    "statistics of a row": lambda x: (x - x.mean(1)[:, None]) / np.sqrt(1 + x.var(1))[:, None],
    "sorted row": lambda x: np.sort(x, axis=1),
    "sum of a row": lambda x: x.cumsum(axis=1),
    "class of a row": lambda x: x.argmax(axis=1)[:, None],
    "one number a row": lambda x: x.mean(axis=1),
    "signs": lambda x: x > 0,
    "text": lambda x: np.array([[b"%.3f" % row[0]] for row in x], object),
    "16 bits": lambda x: x.astype(np.float16),
    "no number": lambda x: np.where(x < 0, np.nan, x),
    "added up in another order": lambda x: x * np.float32(1 + 1e-6 * len(x)),
}


def rows(dtype: Any = np.float32, between: tuple[float, float] | None = None) -> list[Batch]:
    generator = np.random.default_rng(3)
    return [
        {"x": row_trial.values(number, (1, WIDTH), dtype, between, generator)}
        for number in range(ROWS)
    ]


def tried(function: Function, *, largest: int = 16, of: list[Batch] | None = None) -> RowVerdict:
    trial = row_trial.trial(of or rows(), row_trial.concatenated, largest)
    return row_trial.run(trial, lambda batch: {"y": function(batch["x"])})


@pytest.mark.parametrize("how", COUPLED)
def test_rows_that_influence_each_other_are_found(how: str) -> None:
    assert tried(COUPLED[how]).rows is Rows.COUPLED


@pytest.mark.parametrize("how", ["softmax", "mean", "cumulative sum", "first row decides"])
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_they_are_found_in_every_floating_type(how: str, dtype: Any) -> None:
    assert tried(COUPLED[how], of=rows(dtype)).rows is Rows.COUPLED


@pytest.mark.parametrize("how", ["sort", "largest", "cumulative sum", "last row decides", "order"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.bool_])
def test_they_are_found_in_whole_numbers(how: str, dtype: Any) -> None:
    def function(x: Array) -> Array:
        return COUPLED[how](x.astype(np.int64))

    assert tried(function, of=rows(dtype)).rows is Rows.COUPLED


def test_they_are_found_in_batches_of_two() -> None:
    for how in ("softmax", "sort", "cumulative sum", "first row decides", "doubles counted"):
        assert tried(COUPLED[how], largest=2).rows is Rows.COUPLED, how


@pytest.mark.parametrize("how", INDEPENDENT)
def test_rows_that_do_not_are_not_suspected(how: str) -> None:
    assert tried(INDEPENDENT[how]) == UNCOUPLED


def test_one_coupled_output_among_others_is_named() -> None:
    trial = row_trial.trial(rows(), row_trial.concatenated, 8)
    verdict = row_trial.run(trial, lambda b: {"y": b["x"], "z": softmax(b["x"], 0)})
    assert verdict.rows is Rows.COUPLED
    assert "output z is not the same (off by " in verdict.why


def test_a_word_for_each_row_is_compared() -> None:
    def words(x: Array) -> Array:
        return np.array(["no" if row[0] < 0 else "yes" for row in x], object)

    assert tried(words) == UNCOUPLED
    verdict = tried(lambda x: words(x - x.mean(axis=0)))
    assert verdict.rows is Rows.COUPLED
    assert verdict.why.startswith("output y is not the same for a row")


def test_a_padded_row_ends_in_zeros_or_empty_strings() -> None:
    numbers = np.arange(1, 13).reshape(1, 3, 4)
    assert row_trial.padded(1, numbers, [1, 2]).tolist() == [[[1, 2, 0, 0], [5, 6, 0, 0], [0] * 4]]
    assert row_trial.padded(0, numbers, [1, 2]).tolist() == numbers.tolist()
    texts = np.array([[b"a", b"b"]], object)
    assert row_trial.padded(4, texts, [1]).tolist() == [[b"a", b""]]
    assert texts.tolist() == [[b"a", b"b"]]


def test_a_model_with_the_same_answer_for_all_says_nothing() -> None:
    verdict = tried(lambda x: np.zeros((len(x), 2), np.float32))
    assert verdict == RowVerdict(Rows.UNTRIED, "its answers are the same for every row tried")


def test_answers_that_are_nearly_the_same_say_nothing() -> None:
    """The influence of one on another would be within the tolerance."""
    verdict = tried(lambda x: np.float32(1) + np.float32(TOLERANCE / 3) * softmax(x, 1))
    assert verdict == RowVerdict(Rows.UNTRIED, "output y is nearly the same for every row")


def test_an_output_that_is_always_the_same_beside_one_that_tells() -> None:
    trial = row_trial.trial(rows(), row_trial.concatenated, 8)
    constant = np.float32(0.5)
    verdict = row_trial.run(
        trial, lambda b: {"y": b["x"], "z": np.full((len(b["x"]), 1), constant)}
    )
    assert verdict == UNCOUPLED


def test_a_model_that_answers_one_row_in_two_ways_cannot_be_tried() -> None:
    generator = np.random.default_rng(0)
    verdict = tried(lambda x: x + generator.normal(0, 1, x.shape))
    assert verdict == RowVerdict(Rows.UNTRIED, "it has two answers to the same row")


def test_a_model_that_refuses_every_row_cannot_be_tried() -> None:
    trial = row_trial.trial(rows(), row_trial.concatenated, 8)
    verdict = row_trial.run(trial, lambda batch: None)
    assert verdict == RowVerdict(Rows.UNTRIED, f"it answers 0 of the {ROWS} rows tried")


def test_rows_that_it_refuses_are_left_out() -> None:
    trial = row_trial.trial(rows(), row_trial.concatenated, 8)
    verdict = row_trial.run(trial, lambda b: None if (b["x"] < 0).any() else {"y": b["x"]})
    assert verdict == UNCOUPLED


def test_a_model_that_refuses_a_batch_has_none() -> None:
    trial = row_trial.trial(rows(), row_trial.concatenated, 8)
    verdict = row_trial.run(trial, lambda b: None if len(b["x"]) == 3 else {"y": b["x"]})
    assert verdict == RowVerdict(Rows.COUPLED, "it refuses 3 rows that it answers one by one")


def test_other_outputs_in_a_batch_are_an_influence() -> None:
    trial = row_trial.trial(rows(), row_trial.concatenated, 8)
    verdict = row_trial.run(
        trial, lambda b: {"y": b["x"]} | ({"z": b["x"]} if len(b["x"]) > 1 else {})
    )
    assert verdict.rows is Rows.COUPLED


def test_a_row_that_is_padded_to_its_neighbours_is_influenced() -> None:
    """As a sequence of vectors that a tokenizer makes as long as the longest text."""

    def joined(texts: Any) -> Batch:
        return {"x": np.array(texts, object)}

    def padded(batch: Batch) -> Batch:
        longest = max(map(len, batch["x"]))
        return {"y": np.array([[*map(ord, text.ljust(longest))] for text in batch["x"]], np.int32)}

    trial = row_trial.trial(["one", "two words", "three words here"], joined, 8)
    assert row_trial.run(trial, padded).why.startswith("output y has not the same shape")


@pytest.mark.parametrize("largest", [2, 3, 5, 16, 1000])
def test_batches_have_several_sizes_and_orders_and_no_more_rows_than_may_be(largest: int) -> None:
    found = batches(5, largest)
    assert {len(picked) for picked in found} <= set(range(2, min(largest, row_trial.LARGEST) + 1))
    assert max(map(len, found)) == min(largest, row_trial.LARGEST)
    assert any(list(picked) != sorted(picked) for picked in found)
    assert any(picked[0] == picked[1] for picked in found)
    assert len({picked[0] for picked in found}) > 1
    whole = [picked for picked in found if len(picked) == 5 == len(set(picked))]
    assert len(whole) >= (2 if largest >= 5 else 0)


def test_rows_with_different_answers_are_put_together() -> None:
    """To many a model most rows are the same."""
    alike = [{"x": np.full((1, WIDTH), value, np.float32)} for value in (2, 2, 2, 2, 2, 2, 7, 2)]
    assert tried(INDEPENDENT["identity"], of=list(alike)) == UNCOUPLED
    assert tried(COUPLED["a hundredth of the mean"], of=list(alike)).rows is Rows.COUPLED


def test_values_stay_in_their_range_and_rows_differ() -> None:
    for dtype in (np.float32, np.int64, np.uint8):
        made = rows(dtype, (2, 200))
        held = np.concatenate([row["x"] for row in made])
        assert held.dtype == dtype
        assert held.min() >= 2
        assert held.max() <= 200
        assert len(np.unique(held, axis=0)) >= ROWS - 1


def test_whole_numbers_without_a_range_are_rows_of_any_table() -> None:
    """A number that is no row of a table can end a server's use of its GPU."""
    for dtype in (np.int16, np.int32, np.int64, np.uint32, np.uint64):
        assert set(np.concatenate([row["x"] for row in rows(dtype)]).ravel()) == {0, 1}


def test_strings_differ_and_are_harmless() -> None:
    made = [row["x"][0, 0] for row in rows(object)]
    assert len(set(made)) >= 4
    assert all(text.decode().replace(",", "").replace(" ", "").isalnum() for text in made)
