"""The examples of the S3 API reference, "Signature Calculations: Authorization Header"."""

from __future__ import annotations

import httpx
import pytest

from gateway.models.registry.kinds.objectstore import sign
from gateway.protocols.aws.sigv4 import AwsKeys, Signer

KEYS = AwsKeys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
AT = 1369353600.0  # 20130524T000000Z
HOST = "https://examplebucket.s3.amazonaws.com"


@pytest.mark.parametrize(
    ("path", "headers", "signature"),
    [
        (
            "/test.txt", {"range": "bytes=0-9"},
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        ("/?lifecycle=", {}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        (
            "/?max-keys=2&prefix=J", {},
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)  # fmt: skip
def test_the_examples_of_the_reference_come_out(
    path: str, headers: dict[str, str], signature: str
) -> None:
    request = httpx.Request("GET", HOST + path, headers=headers)
    sign(Signer(KEYS, "us-east-1", "s3", lambda: AT), request)
    told = request.headers["authorization"]
    assert told.endswith(f"Signature={signature}")
    assert "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request" in told
