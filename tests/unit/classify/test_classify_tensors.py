"""C6: BYTES tensors declared text are scanned; others have their model's class."""

from __future__ import annotations

import asyncio
import dataclasses
import struct
from typing import Any

import pytest

from gateway.classify.classifier import Classifier
from gateway.core.types import RequestedOutput, Tensor, TensorCall

SSN = "my ssn is 536-90-4399"
ESCAPED = '{"stop": ["\\u0035\\u0033\\u0036-90-4399"]}'
CARD = 4111111111111111


def elements(*values: str | bytes) -> bytes:
    raw = [v.encode() if isinstance(v, str) else v for v in values]
    return b"".join(struct.pack("<I", len(v)) + v for v in raw)


def text(*values: str | bytes, name: str = "TEXT", **parameters: Any) -> Tensor:
    return Tensor(name, "BYTES", (len(values),), elements(*values), parameters)


FLOATS = Tensor("X", "FP32", (2,), struct.pack("<2f", 1.0, 2.0))
HI = text("hello")

CASES: dict[str, tuple[str, TensorCall, str]] = {
    "clear text": ("text", TensorCall((HI,)), "clear"),
    "text": ("text", TensorCall((text("hi", SSN),)), "entities"),
    "JSON in text": ("text", TensorCall((text(ESCAPED),)), "entities"),
    "UTF-16 in text": ("text", TensorCall((text(SSN.encode("utf-16-le")),)), "entities"),
    "not UTF-8": ("text", TensorCall((text(b"\xff\xfe\xfa"),)), "unscannable:not_utf8"),
    "overlong": (
        "text",
        TensorCall((Tensor("TEXT", "BYTES", (1,), struct.pack("<I", 9) + b"hi"),)),
        "unscannable:tensor_bytes",
    ),
    "cut length": (
        "text",
        TensorCall((Tensor("TEXT", "BYTES", (1,), b"\1\0"),)),
        "unscannable:tensor_bytes",
    ),
    "other tensor": ("text", TensorCall((HI, FLOATS)), "tensor_class"),
    "text name, numbers": (
        "text",
        TensorCall((Tensor("TEXT", "INT32", (1,), bytes(4)),)),
        "tensor_class",
    ),
    "other tensor, declared clear": ("open", TensorCall((HI, FLOATS)), "clear"),
    "other BYTES": ("text", TensorCall((text("hi", name="RAW"),)), "tensor_class"),
    "other BYTES, declared clear": ("open", TensorCall((text("hi", name="RAW"),)), "clear"),
    "other BYTES with text": ("open", TensorCall((text(SSN, name="RAW"),)), "entities"),
    "other BYTES, binary": ("open", TensorCall((text(b"\xff\xfe", name="RAW"),)), "clear"),
    "sampling parameters": (
        "open",
        TensorCall((HI, text(ESCAPED, name="sampling_parameters"))),
        "entities",
    ),
    "undeclared": ("stray", TensorCall((HI,)), "undeclared_model"),
    "unknown": ("nowhere", TensorCall((HI,)), "undeclared_model"),
    "id": ("text", TensorCall((HI,), id=SSN), "entities"),
    "version": ("text", TensorCall((HI,), version=str(CARD)), "entities"),
    "short version": ("text", TensorCall((HI,), version="3"), "clear"),
    "shape": ("open", TensorCall((HI, Tensor("X", "FP32", (0, CARD), b""))), "entities"),
    "ordinary shape": ("open", TensorCall((HI, Tensor("X", "FP32", (0, 640), b""))), "clear"),
    "parameter": ("text", TensorCall((HI,), parameters={"note": SSN}), "entities"),
    "parameter name": ("text", TensorCall((HI,), parameters={SSN: True}), "entities"),
    "parameter number": ("text", TensorCall((HI,), parameters={"card": CARD}), "entities"),
    "tensor parameter": ("text", TensorCall((text("hi", note=SSN),)), "entities"),
    "output name": ("text", TensorCall((HI,), (RequestedOutput(SSN),)), "entities"),
    "output parameter": (
        "text",
        TensorCall((HI,), (RequestedOutput("Y", {"note": SSN}),)),
        "entities",
    ),
    "tensor name": ("open", TensorCall((HI, Tensor(SSN, "FP32", (0,), b""))), "entities"),
    "shared memory": (
        "text",
        TensorCall((text("hi", shared_memory_region="r"),)),
        "unscannable:shared_memory",
    ),
    "many elements": ("text", TensorCall((text(*[b""] * 250_000),)), "over_cap"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_tensors(case: str, classifier: Classifier, kit: Any) -> None:
    model, call, reason = CASES[case]
    found = asyncio.run(classifier.classify(kit.make_request(call, model=model)))
    assert found.reason == reason
    assert found.restricted == (reason != "clear")


READ = {
    TensorCall: {"inputs", "outputs", "parameters", "id", "version"},
    Tensor: {"name", "shape", "data", "parameters"},
    RequestedOutput: {"name", "parameters"},
}
CLOSED = {TensorCall: {"streamed"}, Tensor: {"datatype"}, RequestedOutput: set[str]()}
"""Fields with values of a closed set, which can say nothing."""


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.__name__)
def test_a_new_field_needs_a_case_above_or_a_closed_set_of_values(kind: Any) -> None:
    assert {f.name for f in dataclasses.fields(kind)} == READ[kind] | CLOSED[kind]
