"""Calls to a served model in one line each."""

from __future__ import annotations

import queue
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tritonclient.grpc as grpcclient
from tritonclient.utils import np_to_triton_dtype

Array = npt.NDArray[np.generic]
PATIENCE_S = 30.0


def texts(*values: str | bytes) -> npt.NDArray[np.object_]:
    return np.array([v.encode() if isinstance(v, str) else v for v in values], dtype=np.object_)


def tensors(inputs: dict[str, Array]) -> list[grpcclient.InferInput]:
    made = []
    for name, values in inputs.items():
        tensor = grpcclient.InferInput(name, list(values.shape), np_to_triton_dtype(values.dtype))
        tensor.set_data_from_numpy(values)
        made.append(tensor)
    return made


def infer(
    client: grpcclient.InferenceServerClient,
    model: str,
    inputs: dict[str, Array],
    output: str,
    parameters: dict[str, str] | None = None,
) -> Array:
    found = client.infer(model, tensors(inputs), parameters=parameters).as_numpy(output)
    assert isinstance(found, np.ndarray)
    return found


@dataclass(frozen=True, slots=True)
class Response:
    outputs: dict[str, Array]
    final: bool


def stream(
    client: grpcclient.InferenceServerClient, model: str, inputs: dict[str, Array]
) -> list[Response]:
    """All responses to one call, the empty final one included."""
    arrived: queue.Queue[tuple[object, Exception | None]] = queue.Queue()
    client.start_stream(lambda result, error: arrived.put((result, error)))
    try:
        client.async_stream_infer(model, tensors(inputs), enable_empty_final_response=True)
        responses: list[Response] = []
        while not responses or not responses[-1].final:
            result, error = arrived.get(timeout=PATIENCE_S)
            if error is not None:
                raise error
            assert isinstance(result, grpcclient.InferResult)
            raw = result.get_response()
            outputs = {output.name: result.as_numpy(output.name) for output in raw.outputs}
            responses.append(Response(outputs, raw.parameters["triton_final_response"].bool_param))
        return responses
    finally:
        client.stop_stream()
