"""What models say of what they run on is read from Triton's metrics, and nothing else is."""

from __future__ import annotations

import pytest

from gateway.endpoints.triton.providers import Provided, read


def line(**changes: str) -> str:
    labels = {
        "graph": "model.onnx",
        "model": "minilm",
        "provider": "CUDAExecutionProvider",
        "threads": "2",
        "version": "1",
    } | changes
    told = ",".join(f'{k}="{v}"' for k, v in labels.items() if v)
    return f"spillway_model_provider{{{told}}} 1\n"


MINILM = Provided("minilm", "1", "CUDAExecutionProvider", "model.onnx", 2)


def test_a_model_tells_its_provider_graph_and_threads() -> None:
    others = '# TYPE spillway_model_provider gauge\nnv_inference_count{model="minilm"} 3\n'
    assert read(others + line()) == (MINILM,)


@pytest.mark.parametrize(
    "said",
    [
        line(provider="Nobody's"),
        line(provider="x" * 60 + "ExecutionProvider"),
        line(threads="two"),
        line(version=""),
        line().replace("} 1", "} 0"),
        "spillway_model_provider{\n",
        "spillway_model_provider_of_others{} 1\n",
    ],
)
def test_what_cannot_be_read_is_left_out_and_hides_nothing_else(said: str) -> None:
    assert read(said + line()) == (MINILM,)
