"""What a gRPC caller gets through the gateway has the bytes that Triton wrote (O6)."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
from tritonclient.grpc import service_pb2

from tests.scenarios.both_ways import BothWays, Parameters, Refusal, infer_message, set_parameters
from tests.scenarios.tensor_samples import BINARY_ONLY, SAMPLES, Sample

Message = Any
_TYPED = [key for key in SAMPLES if key[0] not in BINARY_ONLY and key[1] != "beyond JSON"]


def asked(ways: BothWays, message: Message) -> bytes | Refusal:
    """The answer, which is the same both ways."""
    direct = ways.direct.unary(message)
    assert ways.through.unary(message) == direct
    return direct


def answer(ways: BothWays, message: Message) -> Message:
    found = asked(ways, message)
    assert isinstance(found, bytes), found
    return service_pb2.ModelInferResponse.FromString(found)


def echo(sample: Sample) -> Message:
    tensor = (sample.datatype, [1, sample.count], sample.raw)
    return infer_message("all_types", {f"INPUT_{sample.datatype}": tensor}, call="call-7")


def typed(sample: Sample) -> Message:
    """Elements in `contents` instead of in raw form."""
    message = echo(sample)
    del message.raw_input_contents[:]
    values: list[Any] = sample.values or []
    if sample.datatype == "BYTES":
        values = [value.encode() for value in values]
    getattr(message.inputs[0].contents, sample.contents).extend(values)
    return message


@pytest.mark.parametrize(("datatype", "kind"), SAMPLES)
def test_raw_contents_come_back_as_from_triton(ways: BothWays, datatype: str, kind: str) -> None:
    sample = SAMPLES[datatype, kind]
    found = answer(ways, echo(sample))
    assert list(found.raw_output_contents) == [sample.raw]
    assert found.id == "call-7"


@pytest.mark.parametrize(("datatype", "kind"), _TYPED)
def test_typed_contents_come_back_as_from_triton(ways: BothWays, datatype: str, kind: str) -> None:
    sample = SAMPLES[datatype, kind]
    assert list(answer(ways, typed(sample)).raw_output_contents) == [sample.raw]


def test_every_datatype_at_once_and_some_outputs_in_another_order(ways: BothWays) -> None:
    chosen = [SAMPLES[key] for key in SAMPLES if key[1] == "edges"]
    inputs = {f"INPUT_{s.datatype}": (s.datatype, [1, s.count], s.raw) for s in chosen}
    wanted = tuple(f"OUTPUT_{s.datatype}" for s in reversed(chosen))
    found = answer(ways, infer_message("all_types", inputs, outputs=wanted))
    assert len(found.outputs) == len(chosen)


INT32 = ("INT32", [1], struct.pack("<i", 3))


def pair() -> dict[str, tuple[str, list[int], bytes]]:
    data = struct.pack("<16i", *range(16))
    return {f"INPUT{at}": ("INT32", [1, 16], data) for at in (0, 1)}


def classes(top: int) -> Message:
    scores = struct.pack("<8f", 0.1, 0.5, 0.25, 0.3, 4, 3, 2, 1)
    inputs = {"SCORES": ("FP32", [2, 4], scores)}
    message = infer_message("labelled", inputs, outputs=("CLASSES",))
    set_parameters(message.outputs[0].parameters, {"classification": top})
    return message


ANSWERED: dict[str, Callable[[], Message]] = {
    "an id of any text": lambda: infer_message("simple", pair(), call='a"é\n\u2028'),
    "one output of two": lambda: infer_message("simple", pair(), outputs=("OUTPUT1",)),
    "custom parameters": lambda: infer_message(
        "simple", pair(), parameters={"a": "b", "n": 5, "yes": True, "x": 0.5}
    ),
    "an older version": lambda: infer_message("versioned", {"INPUT": INT32}, version="1"),
    "the newest version": lambda: infer_message("versioned", {"INPUT": INT32}),
    "classes": lambda: classes(2),
    "more classes than there are": lambda: classes(9),
}


@pytest.mark.parametrize("name", ANSWERED)
def test_what_a_call_asks_for_is_answered_as_by_triton(ways: BothWays, name: str) -> None:
    answer(ways, ANSWERED[name]())


PARAMETERS: dict[str, Parameters] = {
    "nothing": {},
    "custom": {"text": "é\n", "whole": -5, "real": 1.5, "yes": True, "most": 2**63 - 1},
    "a sequence": {"sequence_id": 7, "sequence_start": True, "sequence_end": True},
    "a sequence with a text id": {"sequence_id": "abc", "sequence_start": True},
    "priority": {"priority": 2},
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_model_sees_the_same_call(ways: BothWays, name: str) -> None:
    """All but `timeout`, which tells Triton what is left of the deadline (D3)."""
    message = infer_message(
        "seen", {"INPUT": INT32}, call="mine", outputs=("SEEN",), parameters=PARAMETERS[name]
    )
    seen = []
    for way in (ways.direct, ways.through):
        raw = way.unary(message)
        assert isinstance(raw, bytes), raw
        found = service_pb2.ModelInferResponse.FromString(raw)
        seen.append(json.loads(found.raw_output_contents[0][4:]))
    assert seen[0].pop("timeout_us") == 0
    assert 0 < seen[1].pop("timeout_us") <= 60_000_000
    assert seen[0] == seen[1]
    assert seen[0]["id"] == "mine"


def changed(message: Message, **changes: Any) -> Message:
    for name, value in changes.items():
        setattr(message, name, value)
    return message


def without_the_second_input() -> Message:
    message = infer_message("simple", pair())
    del message.inputs[1], message.raw_input_contents[1]
    return message


def repeated(values: list[int], parameters: Parameters | None = None) -> Message:
    count = len(values)
    inputs = {
        "IN": ("INT32", [count], struct.pack(f"<{count}i", *values)),
        "DELAY": ("UINT32", [count], struct.pack(f"<{count}I", *[1] * count)),
        "WAIT": ("UINT32", [1], bytes(4)),
    }
    return infer_message("repeat_int32", inputs, call="r", parameters=parameters)


def letters() -> Message:
    data = struct.pack("<I1s", 1, b"x") * 16
    inputs = {f"INPUT{at}": ("BYTES", [1, 16], data) for at in (0, 1)}
    return infer_message("simple_string", inputs)


IN_TRITONS_WORDS: dict[str, tuple[str, Callable[[], Message]]] = {
    "a version that there is not": (
        "NOT_FOUND",
        lambda: infer_message("versioned", {"INPUT": INT32}, version="9"),
    ),
    "an input less": ("INVALID_ARGUMENT", without_the_second_input),
    "an input that the model does not have": (
        "INVALID_ARGUMENT",
        lambda: infer_message("simple", {**pair(), "OTHER": INT32}),
    ),
    "an input of another datatype": (
        "INVALID_ARGUMENT",
        lambda: infer_message("seen", {"INPUT": ("FP32", [1], bytes(4))}),
    ),
    "a batch of nothing": (
        "INVALID_ARGUMENT",
        lambda: infer_message("all_types", {"INPUT_INT8": ("INT8", [0, 4], b"")}),
    ),
    "no dimension": (
        "INVALID_ARGUMENT",
        lambda: infer_message("all_types", {"INPUT_INT8": ("INT8", [], b"a")}),
    ),
    "an output that the model does not have": (
        "INVALID_ARGUMENT",
        lambda: infer_message("simple", pair(), outputs=("OTHER",)),
    ),
    "a reserved parameter": (
        "INVALID_ARGUMENT",
        lambda: infer_message("simple", pair(), parameters={"triton_x": 1}),
    ),
    "no classes": ("INVALID_ARGUMENT", lambda: classes(0)),
    "a negative number of classes": ("INVALID_ARGUMENT", lambda: classes(-1)),
    "a decoupled model": ("UNIMPLEMENTED", lambda: repeated([1])),
    "a sequence that did not start": (
        "INVALID_ARGUMENT",
        lambda: infer_message(
            "simple_sequence",
            {"INPUT": ("INT32", [1, 1], bytes(4))},
            parameters={"sequence_id": 4711},
        ),
    ),
    "a model's own refusal": ("INTERNAL", letters),
}


@pytest.mark.parametrize("name", IN_TRITONS_WORDS)
def test_what_triton_refuses_is_refused_in_its_words(ways: BothWays, name: str) -> None:
    code, message = IN_TRITONS_WORDS[name]
    refusal = asked(ways, message())
    assert isinstance(refusal, Refusal)
    assert refusal.code == code


def seen() -> Message:
    return infer_message("seen", {"INPUT": INT32})


def with_contents(model: str, name: str, datatype: str, field: str, *values: Any) -> Message:
    message = infer_message(model, {name: (datatype, [1, 1], b"")})
    del message.raw_input_contents[:]
    getattr(message.inputs[0].contents, field).extend(values)
    return message


def with_input(**changes: Any) -> Message:
    message = seen()
    for name, value in changes.items():
        setattr(message.inputs[0], name, value)
    return message


def twice(part: str) -> Message:
    message = seen()
    if part == "outputs":
        message.outputs.add(name="SEEN")
        message.outputs.add(name="SEEN")
        return message
    if part == "inputs":
        message.inputs.append(message.inputs[0])
    message.raw_input_contents.append(message.raw_input_contents[0])
    return message


def unsigned(value: int) -> Message:
    message = seen()
    message.parameters["n"].uint64_param = value
    return message


def valueless() -> Message:
    message = seen()
    message.parameters["n"].SetInParent()
    return message


def shared_memory() -> Message:
    message = seen()
    parameters = message.inputs[0].parameters
    set_parameters(parameters, {"shared_memory_region": "x", "shared_memory_byte_size": 4})
    del message.raw_input_contents[:]
    return message


NO_NAME = "names are the caller's text, and are not repeated"
OWN_WORDS = "the gateway reads the call before Triton does, and says where it is wrong"
OTHER_NUMBER = "Triton executes another number than the one that was sent"
UNSCANNED = "what the gateway did not read must not go on"
LEFT_OUT = "a part of Triton that the gateway does not offer"
SAME_VALUE = "an integer has one kind here, whichever field of the message it came in"
BAD = "INVALID_ARGUMENT"

DIFFERENT: dict[str, tuple[Callable[[], Message], str, str, str]] = {
    # name: (message, Triton's status, the gateway's, why they differ)
    "an unknown model": (
        lambda: infer_message("nobody", {"INPUT": INT32}), "NOT_FOUND", "NOT_FOUND", NO_NAME,
    ),
    "a version that is no number": (
        lambda: changed(seen(), model_version="x"), BAD, BAD, OWN_WORDS,
    ),
    "a datatype that there is not": (lambda: with_input(datatype="X"), BAD, BAD, OWN_WORDS),
    "bytes that are too few": (
        lambda: infer_message("seen", {"INPUT": ("INT32", [1], b"123")}), BAD, BAD, OWN_WORDS,
    ),
    "an element that is cut off": (
        lambda: infer_message("all_types", {"INPUT_BYTES": ("BYTES", [1, 1], b"\5\0\0\0ab")}),
        BAD, BAD, OWN_WORDS,
    ),
    "a negative dimension": (
        lambda: infer_message("seen", {"INPUT": ("INT32", [-1], bytes(4))}), BAD, BAD, OWN_WORDS,
    ),
    "an input twice": (lambda: twice("inputs"), BAD, BAD, OWN_WORDS),
    "elements in the field of others": (
        lambda: with_contents("all_types", "INPUT_INT8", "INT8", "int64_contents", 1),
        BAD, BAD, OWN_WORDS,
    ),
    "typed half precision": (
        lambda: with_contents("all_types", "INPUT_FP16", "FP16", "fp32_contents", 1.0),
        BAD, BAD, OWN_WORDS,
    ),
    "no elements at all": (
        lambda: with_contents("all_types", "INPUT_INT8", "INT8", "int_contents"),
        BAD, BAD, OWN_WORDS,
    ),
    "too many elements": (
        lambda: with_contents("all_types", "INPUT_INT8", "INT8", "int_contents", 1, 2),
        BAD, BAD, OWN_WORDS,
    ),
    "a parameter without a value": (valueless, BAD, BAD, OWN_WORDS),
    "a byte that holds 300": (
        lambda: with_contents("all_types", "INPUT_INT8", "INT8", "int_contents", 300),
        "OK", BAD, OTHER_NUMBER,
    ),
    "raw contents of no input": (lambda: twice("raw contents"), "OK", BAD, UNSCANNED),
    "an output twice": (lambda: twice("outputs"), "OK", BAD, OWN_WORDS),
    "an unsigned parameter": (lambda: unsigned(5), BAD, "OK", SAME_VALUE),
    "shared memory": (shared_memory, "NOT_FOUND", "UNIMPLEMENTED", LEFT_OUT),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_the_gateway_says_otherwise_is_known(ways: BothWays, name: str) -> None:
    message, tritons, ours, _why = DIFFERENT[name]
    found = [way.unary(message()) for way in (ways.direct, ways.through)]
    assert [f.code if isinstance(f, Refusal) else "OK" for f in found] == [tritons, ours]


def step(model: str, sequence: int | str, value: int, **marks: bool) -> Message:
    data = struct.pack("<i", value)
    return infer_message(
        model,
        {"INPUT": ("INT32", [1, 1], data)},
        call=f"{sequence}-{value}",
        parameters={"sequence_id": sequence, **marks},
    )


def sequence(model: str, name: int | str) -> list[Message]:
    return [
        step(model, name, 5, sequence_start=True),
        step(model, name, 6),
        step(model, name, 7),
        step(model, name, 8, sequence_end=True),
    ]


EMPTY_END = {"triton_enable_empty_final_response": True}

STREAMS: dict[str, Callable[[], list[Message]]] = {
    "one answer": lambda: [infer_message("simple", pair(), call="a")],
    "one answer, with an empty end": lambda: [
        infer_message("simple", pair(), call="a", parameters=EMPTY_END)
    ],
    "many answers": lambda: [repeated([4, 5, 6])],
    "many answers, with an empty end": lambda: [repeated([4, 5, 6], EMPTY_END)],
    "no answer": lambda: [repeated([])],
    "no answer but an empty end": lambda: [repeated([], EMPTY_END)],
    "calls in order": lambda: [infer_message("simple", pair(), call=f"{n}") for n in range(40)],
    "a refused call among others": lambda: [
        infer_message("simple", pair(), call="a"),
        without_the_second_input(),
        infer_message("simple", pair(), call="b"),
    ],
    "a model's own refusal": lambda: [letters(), infer_message("simple", pair(), call="b")],
    "a sequence": lambda: sequence("simple_sequence", 41),
    "a sequence with its identity": lambda: sequence("simple_dyna_sequence", 42),
    "a sequence with a text identity": lambda: sequence("simple_string_dyna_sequence", "43"),
    "two sequences side by side": lambda: [
        message
        for both in zip(
            sequence("simple_sequence", 44), sequence("simple_sequence", 45), strict=True
        )
        for message in both
    ],
    "a sequence that did not start": lambda: [step("simple_sequence", 46, 1)],
    "every datatype": lambda: [echo(SAMPLES[key]) for key in SAMPLES if key[1] == "edges"],
    "nothing": list,
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_has_tritons_messages_in_its_order(ways: BothWays, name: str) -> None:
    direct = ways.direct.stream(*STREAMS[name]())
    assert ways.through.stream(*STREAMS[name]()) == direct
    assert bool(direct) == (name not in ("nothing", "no answer"))
