"""Generated calls, each with a reference that no other call has."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tritonclient.grpc import service_pb2

from gateway.demo.texts import Markers
from loadtests.leaks import shapes, values

_CLOUD_ONLY_SHARE = 0.75
"""Of the calls, the share to models that no on-prem endpoint serves: what is restricted there is
refused at once, and costs Triton nothing."""
_STREAM_SHARE = 0.1
MODELS = {
    "chat/completions": ("scribe", "cloud-scribe"),
    "messages": ("scribe", "cloud-scribe"),
    "completions": ("scribe", "cloud-scribe"),
    "responses": ("scribe", "cloud-scribe"),
    "embeddings": ("minilm", "cloud-minilm"),
    "infer": ("minilm", "cloud-minilm"),
}
_OUTPUT = dict.fromkeys(("chat/completions", "messages", "completions"), "max_tokens")


@dataclass(frozen=True, slots=True)
class Call:
    """One call. Over HTTP `body` goes to `path`; where `path` is empty it is a serialised
    `inference.ModelInferRequest`."""

    reference: str
    restricted: bool
    kind: str  # of what it holds
    form: str
    where: str  # the field that holds it
    path: str
    body: bytes = field(repr=False)
    words: str  # which that field holds
    headers: dict[str, str] = field(default_factory=dict)
    streamed: bool = False


class Calls:
    """An endless, repeatable supply: the same seed gives the same calls. Supplies of one run share
    `markers`, or two calls could have the same reference."""

    def __init__(self, seed: int, control_share: float, markers: Markers) -> None:
        self._dice = random.Random(seed)
        self._markers = markers
        self._control_share = control_share

    def __iter__(self) -> Iterator[Call]:
        return self

    def __next__(self) -> Call:
        dice = self._dice
        if dice.random() < self._control_share:
            text = values.clear(dice)
            return self._call(False, text.kind, "plain", text.words)
        draw = dice.random()
        if draw < 0.2:
            form, words = shapes.record_of_a_person(dice)
            return self._call(True, "person in two fields", form, words)
        if draw < 0.28:
            text = values.foreign(dice)
            return self._call(True, text.kind, "plain", text.words)
        text = values.restricted(dice)
        form, words = shapes.formed(dice, text)
        return self._call(True, text.kind, form, words)

    def _call(self, restricted: bool, kind: str, form: str, words: str) -> Call:
        reference = self._markers.next()
        where = self._dice.choice((*shapes.FIELDS, *shapes.TENSORS))
        if where in shapes.FIELDS:
            operation, fill = shapes.FIELDS[where]
            body = fill(words, reference) | {"model": self._model(operation)}
            if operation in _OUTPUT:
                body[_OUTPUT[operation]] = 2
            streamed = operation != "embeddings" and self._dice.random() < _STREAM_SHARE
            if streamed:
                body["stream"] = True
            path, raw = f"/v1/{operation}", json.dumps(body, ensure_ascii=self._dice.random() < 0.5)
            return Call(
                reference, restricted, kind, form, where, path, raw.encode(), words,
                streamed=streamed,
            )  # fmt: skip
        path, message, headers = self._tensors(where, words, f"note {reference}")
        return Call(reference, restricted, kind, form, where, path, message, words, headers)

    def _model(self, operation: str) -> str:
        return MODELS[operation][self._dice.random() < _CLOUD_ONLY_SHARE]

    def _tensors(self, where: str, words: str, note: str) -> tuple[str, bytes, dict[str, str]]:
        model = self._model("infer")
        document: dict[str, Any]
        if where.startswith("gRPC"):
            return "", _grpc_message(model, where, (words, note)), {}
        if where == "generate":
            document = {"text": words, "parameters": {"remark": note}}
            return f"/v2/models/{model}/generate", json.dumps(document).encode(), {}
        if where == "predict":
            rows = json.dumps({"instances": [words, note]}).encode()
            return f"/v1/models/{model}:predict", rows, {}
        path = f"/v2/models/{model}/infer"
        if where == "REST binary":
            head, tail = _binary((words, note))
            length = {"inference-header-content-length": str(len(head))}
            return path, head + tail, {**length, "content-type": "application/octet-stream"}
        texts = [words, note] if where == "REST text" else [note, "and on"]
        document = {"inputs": [_tensor(data=texts)]}
        if where == "REST id":
            document["id"] = words
        if where == "REST parameter":
            document["parameters"] = {"remark": words}
        return path, json.dumps(document).encode(), {}


def _tensor(**more: Any) -> dict[str, Any]:
    return {"name": "text", "datatype": "BYTES", "shape": [2, 1], **more}


def _elements(texts: tuple[str, ...]) -> bytes:
    """Of a BYTES tensor: each behind its length (Triton's binary tensor data extension)."""
    return b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in texts)


def _binary(texts: tuple[str, ...]) -> tuple[bytes, bytes]:
    data = _elements(texts)
    inputs = [_tensor(parameters={"binary_data_size": len(data)})]
    return json.dumps({"inputs": inputs}).encode(), data


def _grpc_message(model: str, where: str, texts: tuple[str, ...]) -> bytes:
    request = service_pb2.ModelInferRequest(model_name=model)
    tensor = request.inputs.add(name="text", datatype="BYTES", shape=[2, 1])
    if where == "gRPC raw":
        request.raw_input_contents.append(_elements(texts))
    else:
        tensor.contents.bytes_contents.extend(t.encode() for t in texts)
    message: bytes = request.SerializeToString()
    return message
