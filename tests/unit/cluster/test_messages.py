"""What goes over comes out as it went in, and what is not of ours is refused."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gateway.cluster.failures import packed, raised
from gateway.cluster.messages import (
    CloudEstimate,
    Forwarded,
    Kind,
    Messages,
    pack,
    pack_call,
    pack_frame,
    unpack_call,
    unpack_frame,
    unpack_words,
)
from gateway.cluster.owner import staying, unknown
from gateway.core.errors import (
    DeadlineExceeded,
    DeadlineUnmeetable,
    EgressForbidden,
    GatewayError,
    InternalError,
    MalformedBody,
    ModelDead,
    ModelFailed,
    Saturated,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamGivenUp,
    UpstreamRefused,
    UpstreamSilent,
    UpstreamUnreachable,
)
from gateway.core.operations.chat import CHAT
from gateway.core.operations.media.audio import TRANSCRIPTIONS
from gateway.core.operations.media.files import UploadedFile
from gateway.core.operations.spec import Translation
from gateway.core.reply import (
    GrpcMessage,
    JsonBody,
    MediaChunk,
    RestBody,
    ServerEvent,
)
from gateway.core.types import (
    EVERYWHERE,
    Classification,
    Decision,
    DocumentCall,
    Endpoint,
    RequestedOutput,
    Sensitivity,
    Tensor,
    TensorCall,
    WireProtocol,
    Zone,
)
from gateway.endpoints.connectors import Cleared
from tests.unit.harness import request

pytestmark = pytest.mark.leaping

TENSORS = TensorCall(
    (
        Tensor("text", "BYTES", (1, 2), b"\x02\0\0\0hi\x03\0\0\0\xff\0\n", {"binary_data": True}),
        Tensor("empty", "FP32", (0, 4), b""),
        Tensor("x", "FP64", (1,), struct.pack("<d", math.nan)),
    ),
    (RequestedOutput("y", {"classification": 3, "binary_data": False}),),
    {"big": 2**64 - 1, "small": -(2**63), "inf": math.inf, "one": 1.0, "s": "\u2028\x00ü"},
    "free text \U0001f600",
    "3",
    True,
)
DOCUMENT = DocumentCall(
    CHAT, {"messages": [{"role": "user", "content": "ü\n\x1f"}], "n": 10**30}, True
)
CALL = Forwarded(
    id="id", protocol=WireProtocol.KSERVE_REST, tenant="t", model="m", payload=TENSORS,
    left_s=1.25, waited_s=0.5, priority=3, restricted=False,
    cloud=CloudEstimate(0.002, (0.1, 0.2, 0.3), 7.0), avoid=frozenset({"gpu-1"}),
    traceparent="00-ab",
)  # fmt: skip


def over(call: Forwarded) -> Forwarded:
    return unpack_call(b"".join(pack_call(call)))


FORM = DocumentCall(
    TRANSCRIPTIONS,
    {"model": "m", "a[]": ["b", "c"]},
    files=(
        UploadedFile("file", "ü.mp3", "audio/mpeg", bytes(range(256)), ""),
        UploadedFile("other", "", "a/b", b"", ""),
    ),
)
MESSAGE = replace(DOCUMENT, translation=Translation("messages"))


@pytest.mark.parametrize("payload", [TENSORS, DOCUMENT, MESSAGE, FORM, TensorCall(())])
def test_a_call_comes_out_as_it_went_in(payload: TensorCall | DocumentCall) -> None:
    assert over(replace(CALL, payload=payload)) == replace(CALL, payload=payload)
    stays = replace(CALL, payload=payload, restricted=True, cloud=None)
    assert over(stays) == stays


def test_whether_a_number_is_whole_is_kept() -> None:
    found = over(CALL).payload
    assert isinstance(found, TensorCall)
    assert {k: type(v) for k, v in found.parameters.items()} == {
        k: type(v) for k, v in TENSORS.parameters.items()
    }


@pytest.mark.parametrize(
    "change",
    [
        {"left_s": math.nan},
        {"waited_s": math.inf},
        {"cloud": CloudEstimate(0.0, (), 1.0)},
        {"cloud": CloudEstimate(0.0, (0.1,), math.nan)},
        {"cloud": CloudEstimate(0.0, (0.0,), 1.0)},
        {"cloud": CloudEstimate(0.0, (math.inf,), 1.0)},
    ],
    ids=str,
)
def test_numbers_that_no_queue_could_use_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(MalformedBody):
        over(replace(CALL, **change))  # type: ignore[arg-type]


def test_a_restricted_call_that_may_leave_is_refused() -> None:
    with pytest.raises(MalformedBody):
        over(replace(CALL, restricted=True))


def test_what_is_not_said_to_be_clear_is_restricted() -> None:
    length, text, *tail = pack_call(replace(CALL, cloud=None))
    values: tuple[object, ...] = (None, 0, "", [])
    for value in values:
        head = json.dumps(json.loads(text) | {"restricted": value}).encode()
        assert unpack_call(b"".join((struct.pack(">I", len(head)), head, *tail))).restricted
    assert length


@pytest.mark.parametrize("cut", [0, 3, 20, -1])
def test_half_a_call_is_refused(cut: int) -> None:
    with pytest.raises(MalformedBody):
        unpack_call(b"".join(pack_call(CALL))[:cut])


def test_a_call_with_more_behind_it_is_refused() -> None:
    with pytest.raises(MalformedBody):
        unpack_call(b"".join(pack_call(CALL)) + b"x")


@pytest.mark.parametrize(
    "frame",
    [
        RestBody(b'{"a":1}'),
        RestBody(b'{"a":1}\0\xff', 7),
        RestBody(b"", 0),
        GrpcMessage(b"\0\xff"),
        JsonBody(b"{}"),
        ServerEvent(b"data", "response.created"),
        ServerEvent(b""),
        MediaChunk(b"\0\xff", "audio/mpeg"),
    ],
    ids=repr,
)
async def test_a_frame_comes_out_as_it_went_in(
    frame: RestBody | GrpcMessage | JsonBody | MediaChunk | ServerEvent,
) -> None:
    packed_frame = pack_frame(frame)
    for size in (1, 3, len(packed_frame)):
        messages = Messages(_pieces(packed_frame * 2, size))
        for _ in range(2):
            found = await messages.next()
            assert found is not None
            assert unpack_frame(*found) == frame
        assert await messages.next() is None


async def _pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


@pytest.mark.parametrize("said", [b"?\0\0\0\0", b"G\xff\xff\xff\xff", b"G\0\0\0\x05half"])
async def test_an_answer_that_is_none_is_a_failure_of_the_peer(said: bytes) -> None:
    with pytest.raises(UpstreamFailed):
        await Messages(_pieces(said, 100)).next()


def test_a_word_in_the_place_of_a_frame_is_a_failure_of_the_peer() -> None:
    with pytest.raises(UpstreamFailed):
        unpack_frame(Kind.GRANTED, pack(Kind.GRANTED))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Kind.REST, b"\0"),
        (Kind.EVENT, b""),
        (Kind.EVENT, b"\0\0\0\x01\xff"),
        (Kind.MEDIA, b"\0\0\0\x01\xff"),
    ],
)
def test_half_a_frame_is_a_failure_of_the_peer(kind: Kind, body: bytes) -> None:
    with pytest.raises(UpstreamFailed):
        unpack_frame(kind, body)


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"\xff"])
def test_words_that_are_none_are_a_failure_of_the_peer(body: bytes) -> None:
    with pytest.raises(UpstreamFailed):
        unpack_words(body)


# Failures


@pytest.mark.parametrize(
    "error",
    [
        DeadlineExceeded("late", reason="deadline_exceeded_in_queue"),
        DeadlineUnmeetable("no", retry_after_s=2.5),
        Saturated("full", reason="queue_full", retry_after_s=1.0),
        UpstreamBusy("429", retry_after_s=3.0),
        UpstreamFailed("500"),
        UpstreamGivenUp("out", reason="ejected"),
        UpstreamSilent("silent"),
        UpstreamUnreachable("gone"),
        ModelDead("its process died"),
        ModelFailed("bad", grpc_status="NOT_FOUND", body=b"\xff{}", response=b"\0"),
        UpstreamRefused("422", http_status=422, grpc_status="OUT_OF_RANGE", body=b"words"),
        UpstreamRefused("400"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_failure_is_raised_again_as_it_was(error: GatewayError) -> None:
    found = raised(json.loads(json.dumps(packed(error))))
    assert type(found) is type(error)
    for what in ("message", "reason", "retry_after_s", "http_status", "grpc_status", "outcome"):
        assert getattr(found, what) == getattr(error, what)
    for what in ("body", "response"):
        assert getattr(found, what, None) == getattr(error, what, None)


def test_what_is_unknown_here_is_a_failure_of_the_endpoint() -> None:
    assert type(raised(packed(InternalError("a bug")))) is UpstreamFailed
    for told in ({"kind": "SystemExit"}, {"kind": "UpstreamRefused"}, {"kind": "ModelFailed"}, {}):
        assert type(raised(told)) is UpstreamFailed


@pytest.mark.parametrize("told", ["4111 1111", "", "x" * 100, 7, None])
def test_what_is_no_code_becomes_no_label(told: object) -> None:
    assert raised({**packed(UpstreamBusy("429")), "reason": told}).reason == "upstream_busy"


# What is known of a forwarded call at its owner can open no door out: each of three guards alone


async def test_no_guard_at_the_owner_is_the_only_one() -> None:
    here = Endpoint("gpu", Zone.ONPREM, "triton")
    anywhere = request("clear")
    clear = Classification(anywhere.id, Sensitivity.CLEAR, "clear", complete=True)
    out = Decision((here,), "cloud_only", EVERYWHERE)
    Cleared(Zone.CLOUD, anywhere, clear, out)  # with none of them it would leave
    assert unknown(anywhere).restricted
    for found, decision in ((unknown(anywhere), out), (clear, staying(here))):
        with pytest.raises(EgressForbidden):
            Cleared(Zone.CLOUD, anywhere, found, decision)
