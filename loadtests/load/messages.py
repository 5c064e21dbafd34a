"""What is sent: whole HTTP requests as bytes, and messages of the Open Inference Protocol."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tritonclient.grpc import service_pb2

from loadtests.load.words import Words

KINDS = ("chat", "stream", "v2-json", "v2-binary", "grpc")
_MARK = "@@words@@"


@dataclass(frozen=True, slots=True)
class Shape:
    """Of the calls of a run. `path` instead of the protocol's own; `text` stands before the words
    of each prompt."""

    kind: str = "chat"
    model: str = "echo"
    prompt_bytes: int = 2048
    text: str = ""
    max_tokens: int = 100
    tensor: str = "INPUT"
    tensor_shape: tuple[int, ...] = (1, 16)
    different: bool = True
    path: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    calls: Sequence[RecordedCall] = ()  # sent one after the other, in the place of made-up prompts


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A chat as a client sent it; its model is replaced."""

    headers: Mapping[str, str]
    body: Mapping[str, object]


def recorded_calls(path: Path) -> list[RecordedCall]:
    """Lines of JSON: `{"headers": {...}, "body": {...}}`. Raises ValueError, with the line."""
    calls = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                call = json.loads(line)
                calls.append(RecordedCall(dict(call["headers"]), dict(call["body"])))
            except (ValueError, KeyError, TypeError) as exc:
                raise ValueError(
                    f'{path}:{number}: {exc!r}; a line is {{"headers": {{}}, "body": {{}}}}'
                ) from exc
    if not calls:
        raise ValueError(f"{path} has no calls")
    return calls


class Messages(Protocol):
    def next(self) -> bytes: ...


class _Same:
    def __init__(self, message: bytes) -> None:
        self._message = message

    def next(self) -> bytes:
        return self._message


class _Different:
    def __init__(self, before: bytes, words: Words, after: bytes) -> None:
        self._before, self._words, self._after = before, words, after

    def next(self) -> bytes:
        return b"%b%b%b" % (self._before, self._words.next(), self._after)


class _Recorded:
    def __init__(self, shape: Shape, authority: str) -> None:
        self._shape, self._authority = shape, authority
        self._calls = itertools.cycle(shape.calls)

    def next(self) -> bytes:
        call = next(self._calls)
        path = self._shape.path or "/v1/chat/completions"
        body = json.dumps({**call.body, "model": self._shape.model}).encode()
        return _head(self._shape, self._authority, path, len(body), headers=call.headers) + body


def messages(shape: Shape, authority: str) -> Messages:
    """Raises ValueError for a kind that there is not."""
    if shape.calls:
        return _Recorded(shape, authority)
    if shape.kind in ("chat", "stream"):
        return _chat(shape, authority)
    if shape.kind == "v2-json":
        data = [0.25] * _elements(shape)
        body = json.dumps({"inputs": [{**_tensor(shape), "data": data}]}).encode()
        return _Same(_head(shape, authority, _infer(shape), len(body)) + body)
    if shape.kind == "v2-binary":
        raw = _raw(shape)
        told = {**_tensor(shape), "parameters": {"binary_data_size": len(raw)}}
        asked = {"inputs": [told], "parameters": {"binary_data_output": True}}
        head = json.dumps(asked).encode()
        extra = {"inference-header-content-length": str(len(head))}
        length = len(head) + len(raw)
        return _Same(_head(shape, authority, _infer(shape), length, extra) + head + raw)
    if shape.kind == "grpc":
        return _Same(_grpc(shape))
    raise ValueError(f"{shape.kind}: there is {', '.join(KINDS)}")


def _chat(shape: Shape, authority: str) -> Messages:
    words = Words(shape.prompt_bytes, shape.seed)
    document = {
        "model": shape.model,
        "messages": [{"role": "user", "content": shape.text + _MARK}],
        "max_tokens": shape.max_tokens,
        "stream": shape.kind == "stream",
    }
    before, _, after = json.dumps(document).encode().partition(_MARK.encode())
    sample = words.next()
    length = len(before) + len(sample) + len(after)
    head = _head(shape, authority, shape.path or "/v1/chat/completions", length)
    if not shape.different:
        return _Same(head + before + sample + after)
    return _Different(head + before, words, after)


def _infer(shape: Shape) -> str:
    return shape.path or f"/v2/models/{shape.model}/infer"


def _elements(shape: Shape) -> int:
    count = 1
    for size in shape.tensor_shape:
        count *= size
    return count


def _raw(shape: Shape) -> bytes:
    return struct.pack("<f", 0.25) * _elements(shape)


def _tensor(shape: Shape) -> dict[str, object]:
    return {"name": shape.tensor, "datatype": "FP32", "shape": list(shape.tensor_shape)}


def _grpc(shape: Shape) -> bytes:
    request = service_pb2.ModelInferRequest(model_name=shape.model)
    request.inputs.add(name=shape.tensor, datatype="FP32").shape.extend(shape.tensor_shape)
    request.raw_input_contents.append(_raw(shape))
    message: bytes = request.SerializeToString()
    return message


def _head(
    shape: Shape,
    authority: str,
    path: str,
    length: int,
    extra: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    binary = extra is not None
    fields = {
        "host": authority,
        "content-type": "application/octet-stream" if binary else "application/json",
        "content-length": str(length),
        **(extra or {}),
        **{name.lower(): value for name, value in (headers or {}).items()},
        **{name.lower(): value for name, value in shape.headers.items()},
    }
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join((*lines, "", "")).encode("latin-1")
