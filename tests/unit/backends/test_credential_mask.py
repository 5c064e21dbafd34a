"""An endpoint that repeats the gateway's credentials repeats them to nobody (T5)."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import grpc
import pytest

from gateway.core.errors import UpstreamRefused
from gateway.endpoints.connectors.credential_mask import CredentialMask
from gateway.endpoints.connectors.open_inference import grpc_failures
from gateway.protocols.http2.message import GrpcStatusError
from gateway.protocols.oip.stream_frames import StreamFrame

KEY = 'key/with+"all" of?them'
MASK = CredentialMask([f"Basic {KEY}"])
FORMS = {
    "plain": KEY,
    "JSON": KEY.replace('"', '\\"'),
    "a path": quote(KEY, safe=""),
    "a form": quote_plus(KEY),
    **{
        f"base64 behind {n}": b64encode(b"u" * n + f"Basic {KEY}".encode()).decode()
        for n in range(3)
    },
    "base64url": urlsafe_b64encode(f"Basic {KEY}".encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_credential_is_taken_out_in_every_form(form: str) -> None:
    masked = MASK.masked_text(f"refused: {FORMS[form]} is not known")
    assert FORMS[form] not in masked
    assert masked.startswith("refused: ")
    assert masked.endswith(" is not known")
    assert "(credential)" in masked


def test_short_values_are_no_credentials() -> None:
    assert CredentialMask(["eu", "2024"]).masked_text("eu in 2024") == "eu in 2024"


def test_the_details_of_a_grpc_failure_have_no_credential() -> None:
    raised = grpc_failures.ours(GrpcStatusError("INVALID_ARGUMENT", f"bad {KEY}"), MASK)
    assert isinstance(raised, UpstreamRefused)
    assert KEY not in str(raised)
    assert grpc_failures.error_from_status(grpc.StatusCode.INVALID_ARGUMENT, "bad").message == "bad"


def test_an_error_within_a_grpc_stream_has_no_credential() -> None:
    assert KEY not in str(grpc_failures.in_stream(StreamFrame(error=f"bad {KEY}"), MASK))
