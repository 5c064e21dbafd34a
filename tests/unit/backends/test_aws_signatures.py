"""Signatures of calls are those that botocore computes of what is sent, whatever stands in them."""

from __future__ import annotations

from email.parser import BytesHeaderParser

import pytest

from gateway.config import providers
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall, InferenceRequest, WireProtocol
from gateway.endpoints.connectors.openai.heads import CallHeads
from gateway.endpoints.connectors.openai.provider import endpoint_origin
from gateway.protocols.aws.sigv4 import AwsKeys, Signer
from gateway.protocols.http_client.wire import ConnectionPool
from tests.bedrock_api import ACCESS_KEY, REGION, SECRET_KEY, AwsApi, signature_problem

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def heads(provider: str, query: dict[str, str], **headers: str) -> CallHeads:
    url = (
        "http://127.0.0.1:4711/endpoints/a" if provider == "sagemaker" else "http://127.0.0.1:4711"
    )
    described = providers.find(provider)
    wire = ConnectionPool(endpoint_origin(url, None, described.base), connect_timeout_s=1.0)
    made = CallHeads(wire, described, query)
    made.carry(headers, SIGNER)
    return made


SIGNER = Signer(AwsKeys(ACCESS_KEY, SECRET_KEY), REGION, "bedrock")


def problem_of(head: bytes, body: bytes, token: str = "") -> str:
    line, _, fields = head.partition(b"\r\n")
    method, target, _ = line.decode().split(" ")
    api = AwsApi(secrets={ACCESS_KEY: (SECRET_KEY, token)})
    return signature_problem(api, method, target, BytesHeaderParser().parsebytes(fields), body)


def written(made: CallHeads, model: str, body: bytes, streamed: bool = False) -> bytes:
    call = DocumentCall(CHAT, {}, streamed)
    request = InferenceRequest(
        "1", WireProtocol.OPENAI, "t", "m", call, Deadline.after(60.0), traceparent=TRACE
    )
    return made.head(request, call, model, body)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        "anthropic.claude-3-haiku-20240307-v1:0",
        "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.meta.llama3-2-1b-v1:0",
        "arn:aws-us-gov:bedrock:us-gov-west-1:1:provisioned-model/a1/b2",
        "a+b%20c&d=e~f_g-h.i?j#k'(l)*!@$,;[]",
        "100%",
    ],
)
def test_odd_names_of_models_are_signed_as_they_are_sent(model: str, streamed: bool) -> None:
    head = written(heads("bedrock-converse", {}), model, b'{"a":1}', streamed)
    assert problem_of(head, b'{"a":1}') == ""
    assert problem_of(head, b'{"a":2}') == "InvalidSignatureException"
    assert problem_of(head.replace(b"/model/", b"/model/x"), b'{"a":1}') != ""


@pytest.mark.parametrize(
    "query",
    [
        {"b": "2", "a": "1", "a-b": "3"},
        {"a b": "c/d+e", "A": "é&=", "empty": ""},
        {"z": "%20", "~": "*"},
    ],
    ids=str,
)
def test_queries_and_headers_are_signed(query: dict[str, str]) -> None:
    made = heads("bedrock", query, **{"x-custom": "  a   b ", "x-amzn-y": "c"})
    head = written(made, "m", b"{}")
    assert b"?" in head
    assert problem_of(head, b"{}") == ""
    assert problem_of(head.replace(b"x-amzn-y: c", b"x-amzn-y: d"), b"{}") != ""


def test_a_session_token_goes_with_the_call_and_is_signed() -> None:
    made = heads("bedrock-converse", {})
    made.carry({}, Signer(AwsKeys(ACCESS_KEY, SECRET_KEY, "t0ken/+="), REGION, "bedrock"))
    head = written(made, "m", b"{}")
    assert b"x-amz-security-token: t0ken/+=\r\n" in head
    assert problem_of(head, b"{}", "t0ken/+=") == ""
    assert problem_of(head, b"{}", "other") == "ExpiredTokenException"


def test_a_probe_is_signed_as_well() -> None:
    sent = heads("bedrock-converse", {"a": "b"}).probe()
    fields = b"".join(b"%b: %b\r\n" % each for each in sent.headers)
    head = f"GET {sent.path} HTTP/1.1\r\nhost: 127.0.0.1:4711\r\n".encode() + fields
    assert problem_of(head, b"") == ""


def test_a_new_day_has_a_new_key() -> None:
    moments = [1_800_000_000.0, 1_800_000_000.0 + 86_400]
    keys, start = AwsKeys(ACCESS_KEY, SECRET_KEY), b"POST /a HTTP/1.1\r\nhost: a\r\n"
    signer = Signer(keys, REGION, "bedrock", lambda: moments[0])
    first = signer.head_signature(start, b"")
    moments.pop(0)
    second = signer.head_signature(start, b"")
    assert first["authorization"] != second["authorization"]
    fresh = Signer(keys, REGION, "bedrock", lambda: moments[0])
    assert second == fresh.head_signature(start, b"")


def test_keys_stand_in_no_representation() -> None:
    signer = Signer(AwsKeys(ACCESS_KEY, SECRET_KEY, "s3ssion"), REGION, "bedrock")
    signer.head_signature(b"POST /a HTTP/1.1\r\nhost: a\r\nx-key: s3cret\r\n", b"")
    canonical = signer.canonical("GET", "/", (), {"host": "a", "x-key": "s3cret"})
    shown = f"{signer!r} {canonical!r}"
    assert not any(secret in shown for secret in (SECRET_KEY, "s3ssion", "s3cret"))
