"""The sizes that a graph takes are found by trying them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gateway.models.adoption.extents import Extents, Range, UnknownExtents, tried
from gateway.models.declaration.tensors import DeclaredDatatype
from gateway.models.failures import WrongModel
from gateway.models.graph import GraphTensor, Signature
from gateway.models.sessions import Array, Feed, Outputs

ROWS = Range(1, 8, 32)


def signature(dims: tuple[int | str, ...], output: tuple[int | str, ...] = ("n", 2)) -> Signature:
    fp32 = DeclaredDatatype.FP32
    return Signature({"x": GraphTensor(fp32, dims)}, {"y": GraphTensor(fp32, output)})


def running(fits: Callable[[Array], bool], rows: int | None = None) -> Callable[[Feed], Outputs]:
    """A graph that refuses what does not fit, and answers as many rows as it gets."""

    def run(feed: Feed) -> Outputs:
        if not fits(feed["x"]):
            raise WrongModel(f"{list(feed['x'].shape)} does not fit")
        return {"y": np.zeros((len(feed["x"]) if rows is None else rows, 2), np.float32)}

    return run


SIZES: dict[str, tuple[Callable[[int], bool], Range]] = {
    "any": (lambda size: True, Range(1, 32, 256)),
    "from three on": (lambda size: size >= 3, Range(3, 32, 256)),
    "no more than 100": (lambda size: size <= 100, Range(1, 7, 64)),
    "multiples of 32": (lambda size: size % 32 == 0, Range(32, 32, 256)),
    "one": (lambda size: size == 128, Range(128, 128, 128)),
}


@pytest.mark.parametrize("which", SIZES)
def test_the_range_of_an_axis_is_what_the_graph_answers(which: str) -> None:
    fits, expected = SIZES[which]
    taken = tried(signature(("n", "width")), running(lambda x: fits(x.shape[1])))
    assert (taken.rows, taken.axes["width"].smallest) == (ROWS, expected.smallest)
    assert taken.axes["width"].largest == expected.largest
    assert fits(taken.axes["width"].usual)


def test_a_size_that_only_the_file_mentions_is_tried_last() -> None:
    run = running(lambda x: x.shape[1] == 77)
    assert tried(signature(("n", "width")), run, [5, 77, 1]).axes["width"] == Range(77, 77, 77)
    with pytest.raises(UnknownExtents, match=r"no size tried fits its axes width: \[.*does not"):
        tried(signature(("n", "width")), run)


def test_the_largest_batch_is_one_that_it_answers() -> None:
    taken = tried(signature(("n", 4)), running(lambda x: len(x) <= 8))
    assert taken == Extents(Range(1, 8, 8), {})


def test_outputs_that_do_not_follow_the_rows_are_of_no_batch() -> None:
    for taken in (
        tried(signature(("n", 4)), running(lambda x: True, rows=1)),
        tried(signature(("n", 4), (1, 2)), running(lambda x: True, rows=1)),
    ):
        assert taken == Extents(None, {"n": Range(1, 32, 256)})


def test_a_graph_that_was_made_for_one_row_has_the_other_axes_tried() -> None:
    run = running(lambda x: len(x) == 1 and x.shape[1] >= 8)
    taken = tried(signature(("n", "width")), run)
    assert taken == Extents(None, {"n": Range(1, 1, 1), "width": Range(8, 32, 256)})


def test_a_size_of_one_says_nothing_of_an_axis() -> None:
    """It fits whatever is beside it."""
    with pytest.raises(UnknownExtents):
        tried(signature(("n", "left", "right")), running(lambda x: x.shape[1:] == (1, 1)))


def test_a_graph_without_free_axes_is_run_once_and_its_refusal_told() -> None:
    assert tried(signature((1, 4), (1, 2)), running(lambda x: True)) == Extents(None, {})
    with pytest.raises(WrongModel, match=r"\[1, 4\] does not fit"):
        tried(signature((1, 4), (1, 2)), running(lambda x: False))
