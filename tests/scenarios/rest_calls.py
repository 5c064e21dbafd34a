"""Bodies of REST calls to the test models."""

from __future__ import annotations

from typing import Any

from tests.scenarios.tensor_samples import Sample

Json = dict[str, Any]

ONE: Json = {"name": "INPUT_INT32", "datatype": "INT32", "shape": [1, 2], "data": [1, -2]}
SCORES: Json = {
    "name": "SCORES",
    "datatype": "FP32",
    "shape": [2, 4],
    "data": [0.1, 0.5, 0.25, 0.3, 4, 3, 2, 1],
}


def tensor(sample: Sample, binary: bool) -> Json:
    found: Json = {
        "name": f"INPUT_{sample.datatype}",
        "datatype": sample.datatype,
        "shape": [1, sample.count],
    }
    if binary:
        return found | {"parameters": {"binary_data_size": len(sample.raw)}}
    return found | {"data": sample.values}


def pair(model: str = "INT32") -> list[Json]:
    return [
        {"name": f"INPUT{at}", "datatype": model, "shape": [1, 16], "data": list(range(16))}
        for at in (0, 1)
    ]


def of(output: str, **parameters: Any) -> Json:
    return {"name": output, "parameters": parameters}


def infer_int32(**changes: Any) -> Json:
    return {"inputs": [ONE | changes]}
