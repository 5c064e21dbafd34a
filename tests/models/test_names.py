"""The model `names` and its runtime: tables of unequal length, and what is no table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest
import tritonclient.grpc as grpcclient
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2
from tritonclient.utils import InferenceServerException

from gateway.classify.names.engines.remote import MOST_WINDOWS
from gateway.classify.names.model.card import WEIGHTS
from gateway.classify.names.model.features import COLUMNS
from gateway.classify.names.model.labels import LABELS
from gateway.classify.names.model.tagger import load_features
from gateway.classify.names.model.words import cut

from .serving import MODELS
from .session import beside

Rows = npt.NDArray[np.int32]
Logits = npt.NDArray[np.float32]

PLACE = MODELS / "names" / "1"


@pytest.fixture(scope="module")
def runtime(built: None) -> ModuleType:
    return beside("names", "runtime")


def table(*texts: str, padded_to: int | None = None) -> Rows:
    rows = [load_features().rows(cut(text)) for text in texts]
    found = np.zeros((len(rows), padded_to or max(map(len, rows)), COLUMNS), dtype=np.int32)
    for at, row in enumerate(rows):
        found[at, : len(row)] = row
    return found


SHORT, LONG = "Call Margaret Whitfield.", "The water of the sea rises as vapour. " * 20


def test_its_config_says_what_goes_in_and_out() -> None:
    text = (MODELS / "names" / "config.pbtxt").read_text()
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    assert list(config.input[0].dims) == [-1, COLUMNS]
    assert list(config.output[0].dims) == [-1, len(LABELS)]
    assert config.max_batch_size >= MOST_WINDOWS


def test_the_model_is_the_gateways_own(built: None) -> None:
    assert (PLACE / "model.onnx").read_bytes() == (WEIGHTS / "first.onnx").read_bytes()


def test_tables_of_unequal_length_come_out_as_if_alone(runtime: ModuleType) -> None:
    model = runtime.Runtime(PLACE)
    tables = [table(SHORT), table(LONG, SHORT), table(SHORT, padded_to=64)]
    together = model.each(tables)
    for one, asked in zip(together, tables, strict=True):
        (alone,) = model.each([asked])
        assert one.shape == alone.shape == (*asked.shape[:2], len(LABELS))
        assert np.abs(probabilities(one) - probabilities(alone)).max() < 0.1
    words = tables[0].shape[1]
    assert together[2][0, :words].argmax(-1).tolist() == together[0][0].argmax(-1).tolist()


def probabilities(logits: Logits) -> Logits:
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(-1, keepdims=True), dtype=np.float32)


def test_no_run_is_larger_than_it_should_be(runtime: ModuleType) -> None:
    tables = [np.zeros((2, 32 * (1 + at % 8), COLUMNS), dtype=np.int32) for at in range(60)]
    found = runtime.batches(tables)
    assert sorted(at for batch in found for at in batch) == list(range(60))
    for batch in found:
        words = sum(len(tables[at]) for at in batch) * max(tables[at].shape[1] for at in batch)
        assert words <= runtime.BATCH_WORDS


@pytest.mark.parametrize(
    "bad",
    [
        np.zeros((1, 4, COLUMNS - 1), dtype=np.int32),
        np.zeros((4, COLUMNS), dtype=np.int32),
        np.zeros((1, 0, COLUMNS), dtype=np.int32),
        np.full((1, 4, COLUMNS), -1, dtype=np.int32),
        np.full((1, 4, COLUMNS), 1_000_000, dtype=np.int32),
    ],
    ids=["narrow", "flat", "empty", "negative", "beyond"],
)
def test_what_is_no_table_is_refused(bad: Rows, runtime: ModuleType) -> None:
    with pytest.raises(ValueError, match="rows must be"):
        runtime.Runtime(PLACE).each([bad])


def test_a_bad_table_does_not_hurt_those_in_its_batch(
    over_grpc: grpcclient.InferenceServerClient,
) -> None:
    good, bad = table(SHORT), np.full((1, 32, COLUMNS), 1_000_000, dtype=np.int32)

    def send(rows: Rows) -> bool:
        tensor = grpcclient.InferInput("rows", list(rows.shape), "INT32")
        tensor.set_data_from_numpy(rows)
        try:
            found = over_grpc.infer("names", [tensor]).as_numpy("logits")
        except InferenceServerException:
            return False
        assert found.shape == (*rows.shape[:2], len(LABELS))
        return True

    with ThreadPoolExecutor(5) as callers:
        served = list(callers.map(send, (good, good, bad, good, good)))
    assert served == [True, True, False, True, True]
