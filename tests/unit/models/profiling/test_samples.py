"""The calls that a model is measured with are of its declared tensors."""

from __future__ import annotations

from pathlib import Path

import pytest
from tritonclient.grpc import service_pb2

from gateway.models import declaration
from gateway.models.declaration import Declaration
from gateway.models.profiling.samples import CannotSample, requests

MODELS = Path(__file__).resolve().parents[4] / "models"


def declared(model: str) -> Declaration:
    return declaration.load(MODELS / model / declaration.FILE)


def read(raw: bytes) -> service_pb2.ModelInferRequest:
    return service_pb2.ModelInferRequest.FromString(raw)


@pytest.mark.parametrize(
    ("model", "name", "shape", "size"),
    [
        ("fraud_score", "features", [3, 12], 3 * 12 * 4),
        ("image_inspection", "image", [3, 64, 64, 1], 3 * 64 * 64),
        ("names", "rows", [3, 64, 21], 3 * 64 * 21 * 4),
    ],
)
def test_every_row_has_the_declared_values(
    model: str, name: str, shape: list[int], size: int
) -> None:
    (raw,) = requests(declared(model), rows=3, words=5, count=1)
    asked = read(raw)
    assert asked.model_name == model
    assert [(i.name, list(i.shape)) for i in asked.inputs] == [(name, shape)]
    assert [len(one) for one in asked.raw_input_contents] == [size]


def test_texts_have_the_wanted_words_and_differ_and_a_seed_makes_them_again() -> None:
    found = requests(declared("minilm"), rows=2, words=7, count=4)
    assert len(set(found)) == 4
    assert found == requests(declared("minilm"), rows=2, words=7, count=4)
    (content,) = read(found[0]).raw_input_contents
    first = content[4 : 4 + int.from_bytes(content[:4], "little")]
    assert len(first.split()) == 7


def test_a_model_without_batches_has_no_rows() -> None:
    asked = read(requests(declared("scribe"), rows=1, words=5, count=1)[0])
    assert [(i.name, list(i.shape)) for i in asked.inputs] == [
        ("text_input", [1]),
        ("max_tokens", [1]),
    ]


def test_an_input_that_nothing_is_known_of_says_where_to_say_it() -> None:
    without = declared("fraud_score").model_copy(update={"canary": None})
    with pytest.raises(CannotSample, match=r"features.*canary.inputs of model.yaml"):
        requests(without, rows=1, words=5, count=1)
