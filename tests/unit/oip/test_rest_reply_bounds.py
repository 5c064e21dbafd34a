"""JSON of an endpoint that is read for a gRPC caller is bounded."""

from __future__ import annotations

import pytest

from gateway.core.errors import UpstreamFailed
from gateway.core.reply import RestBody
from gateway.protocols.oip.rest_reply import decode_response

_HEAD = b'{"model_name":"m","outputs":[{"name":"O","datatype":"FP32","shape":[%d],"data":['


def test_many_numbers_are_read_and_nan_too() -> None:
    count = 50_000
    numbers = b"0.5," * (count - 1)
    for last in (b"1", b"NaN"):
        body = _HEAD % count + numbers + last + b"]}]}"
        (output,) = decode_response(RestBody(body)).outputs
        assert len(output.data) == 4 * count


@pytest.mark.parametrize("piece", [b"[],", b"{},", b"1,"])
def test_more_json_than_can_be_read_is_refused_unread(piece: bytes) -> None:
    body = _HEAD % 1 + piece * 1_100_000 + b"1]}]}"
    with pytest.raises(UpstreamFailed) as failed:
        decode_response(RestBody(body))
    assert failed.value.reason == "answer_too_large"
