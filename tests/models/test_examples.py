"""The models of Triton's client examples do what those examples check."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from .calls import Array, infer, stream, tensors, texts

Client: TypeAlias = grpcclient.InferenceServerClient
VALUES = [11, 7, 5, 3, 2, 0, 1]


@pytest.mark.parametrize(("model", "dtype"), [("simple", np.int32), ("simple_int8", np.int8)])
def test_sum_and_difference(over_grpc: Client, model: str, dtype: npt.DTypeLike) -> None:
    left, right = np.arange(32, dtype=dtype).reshape(2, 16), np.ones((2, 16), dtype=dtype)
    inputs = {"INPUT0": left, "INPUT1": right}
    np.testing.assert_array_equal(infer(over_grpc, model, inputs, "OUTPUT0"), left + right)
    np.testing.assert_array_equal(infer(over_grpc, model, inputs, "OUTPUT1"), left - right)


def test_sum_and_difference_of_numbers_written_as_text(over_grpc: Client) -> None:
    inputs: dict[str, Array] = {
        "INPUT0": texts(*map(str, range(16)))[None],
        "INPUT1": texts(*["1"] * 16)[None],
    }
    summed = infer(over_grpc, "simple_string", inputs, "OUTPUT0")
    assert summed.ravel().tolist() == [b"%d" % (n + 1) for n in range(16)]
    inputs["INPUT1"] = texts(*["Janet"] * 16)[None]
    with pytest.raises(InferenceServerException, match="decimal number") as refusal:
        infer(over_grpc, "simple_string", inputs, "OUTPUT0")
    assert "Janet" not in str(refusal.value)


def test_identity_of_any_bytes(over_grpc: Client) -> None:
    values = texts("", "ü", b"\x00\xff")[None]
    assert (infer(over_grpc, "simple_identity", {"INPUT0": values}, "OUTPUT0") == values).all()


def sequence(
    send: Callable[..., object], model: str, identity: int | str, values: list[int], kind: object
) -> list[int]:
    answers = []
    for index, value in enumerate(values):
        tensor = kind.InferInput("INPUT", [1, 1], "INT32")  # type: ignore[attr-defined]
        tensor.set_data_from_numpy(np.array([[value]], dtype=np.int32))
        result = send(
            model,
            [tensor],
            sequence_id=identity,
            sequence_start=index == 0,
            sequence_end=index == len(values) - 1,
        )
        answers.append(int(result.as_numpy("OUTPUT")[0, 0]))  # type: ignore[attr-defined]
    return answers


@pytest.fixture(params=["grpc", "http"])
def run_sequence(
    request: pytest.FixtureRequest, over_grpc: Client, over_http: httpclient.InferenceServerClient
) -> Callable[[str, int | str, list[int]], list[int]]:
    client, kind = {"grpc": (over_grpc, grpcclient), "http": (over_http, httpclient)}[request.param]
    return lambda model, identity, values: sequence(client.infer, model, identity, values, kind)


RunSequence = Callable[[str, int | str, list[int]], list[int]]


@pytest.mark.parametrize("identity", [1000, "a-name"])
def test_a_sequence_marks_its_start(run_sequence: RunSequence, identity: int | str) -> None:
    assert run_sequence("simple_sequence", identity, [0, *VALUES]) == [1, *VALUES]


def test_a_sequence_with_an_identity_adds_it_at_its_end(run_sequence: RunSequence) -> None:
    answers = run_sequence("simple_dyna_sequence", 1001, [100, *VALUES])
    assert answers == [101, *VALUES[:-1], VALUES[-1] + 1001]


def test_a_sequence_with_a_text_identity_sums(run_sequence: RunSequence) -> None:
    answers = run_sequence("simple_string_dyna_sequence", "1002", [20, *VALUES])
    sums = np.cumsum([20, *VALUES]).tolist()
    assert answers == [*sums[:-1], sums[-1] + 1002]


def test_sequences_at_the_same_time_do_not_mix(over_grpc: Client) -> None:
    def one(number: int) -> list[int]:
        model, values = "simple_string_dyna_sequence", [number] * 5
        return sequence(over_grpc.infer, model, str(number), values, grpcclient)

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(one, range(2001, 2005)))
    expected = [[n, 2 * n, 3 * n, 4 * n, 6 * n] for n in range(2001, 2005)]
    assert answers == expected


def test_repeat_answers_once_for_each_element(over_grpc: Client) -> None:
    inputs: dict[str, Array] = {
        "IN": np.arange(100, 105, dtype=np.int32),
        "DELAY": np.full(5, 20, dtype=np.uint32),
        "WAIT": np.array([10], dtype=np.uint32),
    }
    *answers, last = stream(over_grpc, "repeat_int32", inputs)
    assert [a.outputs["OUT"].tolist() for a in answers] == [[n] for n in range(100, 105)]
    assert [a.outputs["IDX"].tolist() for a in answers] == [[n] for n in range(5)]
    assert last.final
    assert not last.outputs


SAMPLES: dict[str, Array] = {
    "BOOL": np.array([[True, False]]),
    **{f"UINT{n}": np.array([[0, 2**n - 1]], dtype=f"uint{n}") for n in (8, 16, 32, 64)},
    **{f"INT{n}": np.array([[-(2 ** (n - 1)), -1]], dtype=f"int{n}") for n in (8, 16, 32, 64)},
    "FP16": np.array([[6.1e-5, -65504]], dtype=np.float16),
    "FP32": np.array([[np.nan, -np.inf]], dtype=np.float32),
    "FP64": np.array([[5e-324, -0.0]]),
    "BF16": np.array([[1.5, -3e38]], dtype=ml_dtypes.bfloat16),
    "BYTES": texts("", b"\x00\xff\n")[None],
}


@pytest.mark.parametrize("datatype", SAMPLES)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_every_datatype_comes_back_byte_for_byte(
    over_grpc: Client, datatype: str, count: int
) -> None:
    sent = tensors({f"INPUT_{datatype}": SAMPLES[datatype][:, :count]})
    response = over_grpc.infer("all_types", sent).get_response()
    (output,) = response.outputs
    assert (output.name, output.datatype) == (f"OUTPUT_{datatype}", datatype)
    assert list(output.shape) == [1, count]
    assert response.raw_output_contents[0] == sent[0]._get_content()


def test_all_datatypes_come_back_from_one_call(over_grpc: Client) -> None:
    sent = tensors({f"INPUT_{name}": values for name, values in SAMPLES.items()})
    response = over_grpc.infer("all_types", sent).get_response()
    returned = dict(
        zip((o.name for o in response.outputs), response.raw_output_contents, strict=True)
    )
    expected = {t.name().replace("INPUT", "OUTPUT"): t._get_content() for t in sent}
    assert returned == expected


def test_the_slow_model_takes_the_time_that_it_is_given(over_grpc: Client) -> None:
    began = time.monotonic()
    infer(over_grpc, "slow", {"sleep_ms": np.array([[200]], dtype=np.uint32)}, "batch_size")
    assert time.monotonic() - began >= 0.2
