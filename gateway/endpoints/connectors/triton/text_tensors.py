"""Text in tensors: what a Triton model takes and gives, and the tensors of one call to it.

Two conventions are known. A model with `text_input` and `text_output` generates, as Triton's vLLM
and TensorRT-LLM backends do; their optional inputs are used where the model declares them. A model
with one BYTES input and one FP32 output embeds; it tells the tokens of each text in
`num_input_tokens` where it declares that. Names, types and sizes come from its config.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tritonclient.grpc import model_config_pb2

from gateway.core.errors import UpstreamFailed
from gateway.core.reply import GrpcMessage
from gateway.core.types import Parameter, RequestedOutput, Tensor, TensorCall
from gateway.protocols import strictjson
from gateway.protocols.oip.datatypes import DATATYPES, join, split
from gateway.protocols.oip.grpc import decode_response
from gateway.protocols.oip.reply import TensorReply

TEXT_INPUT, TEXT_OUTPUT = "text_input", "text_output"
INPUT_TOKENS = "num_input_tokens"
_EXTRAS = ("finish_reason", INPUT_TOKENS, "num_output_tokens")

NO_PARAMETERS: Mapping[str, Parameter] = {}
Value = bool | int | float | str | Sequence[str]


@dataclass(frozen=True, slots=True)
class EmbeddedTexts:
    vectors: list[bytes]  # of each text, little-endian FP32
    tokens: int | None  # of all texts; None: the model does not count them


@dataclass(frozen=True, slots=True)
class TextModel:
    """The text side of one model, out of its config."""

    inputs: Mapping[str, str]  # name -> datatype
    required: frozenset[str]
    outputs: Mapping[str, str]
    max_batch: int = 0  # 0: the model has no batch dimension
    decoupled: bool = False

    @classmethod
    def from_config(cls, config: Any) -> TextModel:
        """From an `inference.ModelConfig`."""
        return cls(
            inputs={i.name: _datatype(i.data_type) for i in config.input},
            required=frozenset(i.name for i in config.input if not i.optional),
            outputs={o.name: _datatype(o.data_type) for o in config.output},
            max_batch=config.max_batch_size,
            decoupled=config.model_transaction_policy.decoupled,
        )

    @property
    def generates(self) -> bool:
        return self.inputs.get(TEXT_INPUT) == "BYTES" and self.outputs.get(TEXT_OUTPUT) == "BYTES"

    @property
    def embeds(self) -> bool:
        return self._text() is not None and self._vector() is not None

    def _text(self) -> str | None:
        return _one([n for n, t in self.inputs.items() if t == "BYTES"], "text")

    def _vector(self) -> str | None:
        return _one([n for n, t in self.outputs.items() if t == "FP32"], "embedding")

    def embedding_call(
        self, texts: Sequence[str], parameters: Mapping[str, Parameter] = NO_PARAMETERS
    ) -> TensorCall:
        """At most `max_batch` texts; one where the model has no batches."""
        name, vector = self._text(), self._vector()
        if name is None or vector is None:
            raise UpstreamFailed("the model has no text input and vector output")
        shape = (len(texts), 1) if self.max_batch else (len(texts),)
        tensor = Tensor(name, "BYTES", shape, join([text.encode() for text in texts]))
        counts = [INPUT_TOKENS] if INPUT_TOKENS in self.outputs else []
        outputs = tuple(map(RequestedOutput, (vector, *counts)))
        return TensorCall((tensor,), outputs, parameters)

    def embedded(self, message: GrpcMessage, count: int) -> EmbeddedTexts:
        """An answer about so many texts. Raises UpstreamFailed."""
        reply = decode_response(message)
        tensor = _output(reply, self._vector() or "")
        if tensor is None or tensor.datatype != "FP32" or len(tensor.data) % count:
            raise UpstreamFailed("the model's answer is not one vector for each text")
        size = len(tensor.data) // count
        if not size or size % 4 or (len(tensor.shape) > 1 and tensor.shape[0] != count):
            raise UpstreamFailed("the model's answer is not one vector for each text")
        vectors = [tensor.data[at : at + size] for at in range(0, len(tensor.data), size)]
        return EmbeddedTexts(vectors, _sum(_output(reply, INPUT_TOKENS)))

    def generation_call(self, prompt: str, sampling: Sampling, streamed: bool) -> TensorCall:
        wanted: dict[str, Value] = {
            **sampling.inputs(),
            "stream": streamed and self.decoupled,
            "exclude_input_in_output": True,
            **{f"return_{name}": True for name in _EXTRAS},
        }
        if "sampling_parameters" in self.inputs:
            wanted["sampling_parameters"] = sampling.json()
        wanted[TEXT_INPUT] = prompt
        tensors = [
            _tensor(name, datatype, wanted[name], batched=self.max_batch > 0)
            for name, datatype in self.inputs.items()
            if name in wanted
        ]
        outputs = (TEXT_OUTPUT, *(n for n in _EXTRAS if n in self.outputs and self._returns(n)))
        return TensorCall(
            tuple(tensors), tuple(RequestedOutput(n) for n in outputs), streamed=self.decoupled
        )

    @property
    def excludes_prompt(self) -> bool:
        return "exclude_input_in_output" in self.inputs

    def _returns(self, extra: str) -> bool:
        return f"return_{extra}" in self.inputs


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to generate, in the words of the OpenAI API."""

    max_tokens: int
    stops: tuple[str, ...] = ()
    seed: int | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)  # temperature and the like

    def json(self) -> str:
        """As vLLM's backend reads it."""
        document: dict[str, Any] = {**self.numbers, "max_tokens": self.max_tokens}
        if self.stops:
            document["stop"] = list(self.stops)
        if self.seed is not None:
            document["seed"] = self.seed
        return strictjson.dumps(document).decode()

    def inputs(self) -> dict[str, Value]:
        """As TensorRT-LLM's model takes them, each in a tensor of its own."""
        values: dict[str, Value] = {**self.numbers, "max_tokens": self.max_tokens}
        if self.stops:
            values["stop_words"] = values["stop"] = self.stops
        if self.seed is not None:
            values["random_seed"] = values["seed"] = self.seed
        return values


@dataclass(frozen=True, slots=True)
class GeneratedPiece:
    """One response of a generating model."""

    text: str
    finish_reason: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None

    @classmethod
    def from_message(cls, message: GrpcMessage) -> GeneratedPiece | None:
        """None for a response without outputs, which only ends a stream."""
        reply = decode_response(message)
        if not reply.outputs:
            return None
        if (text := _output(reply, TEXT_OUTPUT)) is None:
            raise UpstreamFailed(f"the model's answer has no {TEXT_OUTPUT}")
        reason = _output(reply, "finish_reason")
        return cls(
            "".join(_strings(text)),
            "" if reason is None else "".join(_strings(reason)),
            _number(_output(reply, "num_input_tokens")),
            _number(_output(reply, "num_output_tokens")),
        )


def _datatype(data_type: int) -> str:
    name: str = model_config_pb2.DataType.Name(data_type).removeprefix("TYPE_")
    return "BYTES" if name == "STRING" else name


def _one(names: Sequence[str], usual: str) -> str | None:
    return names[0] if len(names) == 1 else usual if usual in names else None


def _output(reply: TensorReply, name: str) -> Tensor | None:
    return next((tensor for tensor in reply.outputs if tensor.name == name), None)


def _strings(tensor: Tensor) -> list[str]:
    if tensor.datatype != "BYTES":
        raise UpstreamFailed(f"the model's {tensor.name} is not text")
    count = 1
    for size in tensor.shape:
        count *= size
    return [item.decode("utf-8", "replace") for item in split(tensor.data, count)]


def _number(tensor: Tensor | None) -> int | None:
    numbers = _numbers(tensor)
    return numbers[0] if numbers else None


def _sum(tensor: Tensor | None) -> int | None:
    numbers = _numbers(tensor)
    return sum(numbers) if numbers else None


def _numbers(tensor: Tensor | None) -> list[int]:
    if tensor is None or not tensor.data or not (code := DATATYPES[tensor.datatype].code):
        return []
    return [int(number) for (number,) in struct.iter_unpack(f"<{code}", tensor.data)]


def _tensor(name: str, datatype: str, value: Value, *, batched: bool) -> Tensor:
    values = [value] if isinstance(value, str | bool | int | float) else list(value)
    shape = (1, len(values)) if batched else (len(values),)
    if datatype == "BYTES":
        return Tensor(name, datatype, shape, join([str(item).encode() for item in values]))
    code = DATATYPES[datatype].code
    kind: Any = float if code in "efd" else bool if code == "?" else int
    try:
        data = struct.pack(f"<{len(values)}{code}", *map(kind, values))
    except (struct.error, ValueError, OverflowError):
        raise UpstreamFailed(f"the model's input {name} cannot hold what the call says") from None
    return Tensor(name, datatype, shape, data)
