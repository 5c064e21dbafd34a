"""Text and numbers that tensors of a model with `tensors: clear` may be, and tensors that are what
they are."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from gateway.classify.classifier import Classifier
from gateway.classify.tensor_inputs.tensors import MOST_BYTES, spelled_texts
from gateway.core.types import Classification, RequestedOutput, Tensor, TensorCall
from gateway.protocols.oip import grpc, rest
from gateway.protocols.oip.datatypes import join

TYPES = {
    "INT8": "i1", "UINT8": "u1", "INT16": "<i2", "UINT16": "<u2", "INT32": "<i4",
    "UINT32": "<u4", "INT64": "<i8", "UINT64": "<u8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
CARDS = (
    "4111111111111111", "5500005555555559", "378282246310005", "4000056655665556",
    "6011000990139424", "30569309025904", "4222222222222",
)  # fmt: skip
SAYS = "reach jane.roe@example-clinic.org"
SSN = "my ssn is 536-90-4399"


def tensor(values: Any, kind: str, shape: tuple[int, ...] | None = None) -> Tensor:
    array = np.asarray(values).astype(TYPES[kind])
    return Tensor("X", kind, shape or array.shape, array.tobytes())


def padded(values: list[int], size: int, at: int = 0) -> list[int]:
    return [0] * at + values + [0] * (size - len(values) - at)


def digits(card: str) -> list[int]:
    return [*map(int, card)]


def points(text: str) -> list[int]:
    return [*map(ord, text)]


async def looked_at(classifier: Classifier, request: Any) -> Classification:
    """What a call that would leave is found to be."""
    return await classifier.complete(request, await classifier.classify(request))


def verdict(classifier: Classifier, kit: Any, *tensors: Tensor, **fields: Any) -> Classification:
    request = kit.make_request(TensorCall(tensors, **fields), model="open")
    return asyncio.run(looked_at(classifier, request))


def spelling() -> Iterator[tuple[str, Tensor]]:
    for kind in TYPES:
        for card in CARDS:
            yield f"{kind} digits of {card}", tensor([digits(card)], kind)
        card = CARDS[0]
        yield f"{kind} digits, padded", tensor([padded(digits(card), 64)], kind)
        yield f"{kind} digits, in the midst", tensor([[77, 99, *digits(CARDS[2]), 64]], kind)
        yield f"{kind} digits in rows", tensor([digits(card)] * 3, kind)
        yield f"{kind} digits in columns", tensor(np.array([digits(card)] * 2).T, kind)
        yield f"{kind} digits, one a row", tensor(digits(card), kind, (16, 1))
        for said in (SSN, SAYS, f"pay {card}", "4111 1111 1111 1111"):
            yield f"{kind} code points of {said}", tensor(points(said), kind)
            yield f"{kind} padded {said}", tensor([padded(points(said), 300, 40)], kind)
        if kind not in ("INT8", "UINT8", "FP16"):
            yield f"{kind} groups", tensor([[4111, 1111, 1111, 1111]], kind)
            yield f"{kind} groups with zeros", tensor([[5500, 55, 5555, 5559]], kind)
            yield (
                f"{kind} groups among features",
                tensor([[3, 4111, 1111, 1111, 1111, 0, 17]], kind),
            )
            yield f"{kind} groups, padded", tensor([padded([4111, 1111, 1111, 1111], 9)], kind)
        if kind not in ("INT8", "UINT8", "INT16", "FP16"):
            yield f"{kind} an express card", tensor([[3782, 8224, 6310, 5]], kind)
            yield f"{kind} a social security number", tensor([[536, 90, 4399]], kind)
    for kind in ("INT64", "UINT64", "FP64"):
        for card in CARDS:
            yield f"{kind} whole {card}", tensor([[0, int(card), 3]], kind)
    for kind in TYPES:
        raw = SSN.encode() + b"   "
        size = np.dtype(TYPES[kind]).itemsize
        yield f"{kind} packed", Tensor("X", kind, (len(raw) // size,), raw)
    yield "BOOL", Tensor("X", "BOOL", (len(SSN),), SSN.encode())
    for encoding in ("utf-16-le", "utf-16-be", "utf-16", "utf-32-le", "utf-32-be", "utf-32"):
        raw = SSN.encode(encoding)
        yield f"UINT8 {encoding}", Tensor("X", "UINT8", (len(raw),), raw)
        yield f"UINT8 {encoding}, odd", Tensor("X", "UINT8", (len(raw) + 1,), b"\1" + raw)
        yield f"BYTES {encoding}", Tensor("X", "BYTES", (1,), join([b"\xff" + raw]))
    yield "BYTES of digits", Tensor("X", "BYTES", (1,), join([b"\xff" + bytes(digits(CARDS[0]))]))


def _express(name: str, given: Tensor) -> bool:
    """3782 8224 6310 005 has a last group of three, which 5 is not."""
    return "express" not in name


SPELLING = {name: given for name, given in spelling() if _express(name, given)}


@pytest.mark.parametrize("case", SPELLING)
def test_what_a_tensor_spells_is_read(case: str, classifier: Classifier, kit: Any) -> None:
    found = verdict(classifier, kit, SPELLING[case])
    assert (found.restricted, found.reason) == (True, "entities")


@pytest.mark.parametrize(
    "said",
    ["мой паспорт и Иван Петров, Москва", "Γιώργος Παπαδόπουλος", "محمد عبد الله الرحمن",
     "我叫王小明住在北京市海淀区中关村", "김철수 서울특별시 강남구 테헤란로"],
)  # fmt: skip
@pytest.mark.parametrize("form", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-be", "points"])
def test_other_scripts_are_read(said: str, form: str) -> None:
    if form == "points":
        given = tensor(points(said), "INT32")
    else:
        raw = said.encode(form)
        given = Tensor("X", "UINT8", (len(raw),), raw)
    letters = said.replace(" ", "")
    assert any(
        set(letters[:6]) & set(text) and len(text) >= 8
        for text in spelled_texts(TensorCall((given,)), 65_536)
    )


def test_words_in_rows_of_their_own_are_put_together() -> None:
    given = tensor([padded(points("Maria"), 12), padded(points("Kowalska"), 12)], "INT32")
    assert "Maria Kowalska" in spelled_texts(TensorCall((given,)), 65_536)


@pytest.mark.parametrize("how", ["shape", "parameters", "output parameters", "tensor parameters"])
def test_numbers_beside_the_tensors_are_read(how: str, classifier: Classifier, kit: Any) -> None:
    groups = (4111, 1111, 1111, 1111)
    as_parameters = {f"p{at}": number for at, number in enumerate(groups)}
    zero = Tensor("X", "FP32", (0, 4), b"")
    if how == "shape":
        found = verdict(classifier, kit, Tensor("X", "FP32", (*groups, 0)[:4], b""))
    elif how == "parameters":
        found = verdict(classifier, kit, zero, parameters=as_parameters)
    elif how == "tensor parameters":
        found = verdict(classifier, kit, dataclasses.replace(zero, parameters=as_parameters))
    else:
        found = verdict(classifier, kit, zero, outputs=(RequestedOutput("Y", as_parameters),))
    assert found.reason == "entities"


def _json(call: TensorCall) -> TensorCall:
    (given,) = call.inputs
    data = np.frombuffer(given.data, TYPES[given.datatype]).tolist()
    item = {"name": "X", "datatype": given.datatype, "shape": given.shape, "data": data}
    return rest.decode_request(json.dumps({"inputs": [item]}).encode())


def _binary(call: TensorCall) -> TensorCall:
    body, length = rest.encode_request(call)
    return rest.decode_request(body, length)


def _raw_contents(call: TensorCall) -> TensorCall:
    message = b"".join(grpc.encode_request(call, "open"))
    return grpc.decode_request(service_pb2.ModelInferRequest.FromString(message))


def _typed_contents(call: TensorCall) -> TensorCall:
    (given,) = call.inputs
    message = service_pb2.ModelInferRequest(model_name="open")
    item = message.inputs.add(name="X", datatype=given.datatype, shape=given.shape)
    item.contents.int_contents.extend(np.frombuffer(given.data, "<i4").tolist())
    return grpc.decode_request(message)


@pytest.mark.parametrize("wire", [_json, _binary, _raw_contents, _typed_contents])
def test_it_is_read_over_every_wire(wire: Any, classifier: Classifier, kit: Any) -> None:
    for given in (tensor(digits(CARDS[0]), "INT32"), tensor(points(SSN), "INT32")):
        call = wire(TensorCall((given,)))
        request = kit.make_request(call, model="open")
        assert asyncio.run(looked_at(classifier, request)).reason == "entities"


def _picture(seed: int, level: int, noise: float) -> Any:
    generator = np.random.default_rng(seed)
    x, y = np.mgrid[0:224, 0:224]
    smooth = level + level / 3 * np.sin(x / 20) + level / 5 * np.cos(y / 13)
    return np.clip(smooth + generator.normal(size=smooth.shape) * noise, 0, 255)


def clear() -> Iterator[tuple[str, Tensor]]:
    generator = np.random.default_rng(20)
    for kind in ("UINT8", "INT8", "INT32", "FP32", "FP16"):
        high = 128 if kind == "INT8" else 256
        yield f"{kind} pixels", tensor(generator.integers(0, high, (1, 3, 96, 96)), kind)
        for level in (6, 25, 60, 110, 180):
            for noise in (0.0, 1.0, 8.0):
                shown = _picture(level, level, noise).astype("u1")
                yield f"{kind} picture {level} {noise}", tensor(shown, kind)
    yield "embeddings", tensor(generator.normal(size=(8, 384)), "FP32")
    yield "half embeddings", tensor(generator.normal(size=(8, 384)), "FP16")
    yield "spectrogram", tensor(np.abs(generator.normal(size=(80, 300))) * 40 - 80, "FP32")
    yield "features", tensor([[0.12, 4200.5, 3, 0, 1, 17, 2500, 1, 0, 0.5]] * 64, "FP32")
    yield "counts", tensor(generator.poisson(4.0, (64, 12)), "INT32")
    yield "one-hot", tensor(np.eye(32), "INT8")
    yield "mask", tensor(np.ones((4, 128)), "INT64")
    yield "ages", tensor([[34, 51, 29, 73, 66, 41, 38, 55]], "INT64")
    yield "pulse", tensor([[72, 75, 80, 85, 79, 77, 74, 71, 69]], "UINT8")
    yield "times", tensor([[1_764_000_000, 1_764_000_060, 1_764_000_120]], "INT64")
    yield "boxes", tensor([[120, 44, 310, 220], [15, 20, 200, 210]], "INT32")
    yield "sizes", tensor([[1920, 1080], [1280, 720]], "INT32")
    yield "empty", Tensor("X", "FP32", (0, 4), b"")
    prompt = "101 2023 2003 1037 7099 6251 2055 1996 4633 1999 3000 1998 1037 2210 2978 102"
    yield "ids of BERT", tensor([[*map(int, prompt.split())]], "INT64")
    yield "ids, padded", tensor([padded([*map(int, prompt.split())], 128)] * 4, "INT64")
    zipf = np.minimum(generator.zipf(1.3, (8, 256)), 50_000)
    yield "ids by their use", tensor(zipf, "INT32")
    yield "compressed", Tensor("X", "BYTES", (1,), join([b"\xff\xd8" + generator.bytes(9000)]))


CLEAR = dict(clear())


@pytest.mark.parametrize("case", CLEAR)
def test_tensors_that_spell_nothing_stay_clear(case: str, classifier: Classifier, kit: Any) -> None:
    found = verdict(classifier, kit, CLEAR[case])
    assert (found.reason, found.complete) == ("clear", True)


def test_more_than_is_read_restricts(classifier: Classifier, kit: Any) -> None:
    data = bytes(MOST_BYTES + 4)
    found = verdict(classifier, kit, Tensor("X", "FP32", (len(data) // 4,), data))
    assert found.reason == "over_cap"


def test_it_is_read_when_the_call_would_leave_alone(classifier: Classifier, kit: Any) -> None:
    request = kit.make_request(TensorCall((tensor(digits(CARDS[0]), "INT8"),)), model="open")
    first = asyncio.run(classifier.classify(request))
    assert (first.reason, first.complete) == ("clear", False)
