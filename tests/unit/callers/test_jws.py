"""Tokens that must not be believed are not, by tables of our own and by Wycheproof's vectors."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from gateway.auth import jws
from gateway.auth.jws import KeySet
from gateway.auth.refusal import WHY, NotAccepted
from tests.unit.callers.issuer import EC, OTHER_RSA, RSA, b64, claims, forged, signed

EVERY_ALGORITHM = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
    "Ed25519",
)  # fmt: skip


def jwk(key: Any, **changes: Any) -> dict[str, Any]:
    return {**key.as_dict(private=False), **changes}


KEYS = KeySet.from_document({"keys": [jwk(RSA), jwk(EC)]})


def verified(token: str, keys: KeySet = KEYS, *algorithms: str) -> bytes:
    found = jws.read(token)
    keys.verify(found, algorithms or ("RS256", "ES256"))
    return found.payload


def why(token: str, keys: KeySet = KEYS, *algorithms: str) -> str:
    with pytest.raises(NotAccepted) as caught:
        verified(token, keys, *algorithms)
    assert caught.value.why in WHY
    return caught.value.why


def test_what_an_issuer_signed_is_believed() -> None:
    assert json.loads(verified(signed())) == claims()
    assert json.loads(verified(signed(key=EC, algorithm="ES256"))) == claims()
    for kind in ("JWT", "at+jwt"):
        assert verified(signed(typ=kind))


@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
def test_every_algorithm_that_may_be_configured_works(algorithm: str) -> None:
    key: Any = RSA
    if algorithm.startswith("ES"):
        key = ECKey.generate_key({"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm])
    if algorithm.startswith("Ed"):
        key = OKPKey.generate_key("Ed25519")
    token = signed(key=key, algorithm=algorithm, kid=None)
    assert verified(token, KeySet.from_document({"keys": [jwk(key)]}), algorithm)


PUBLIC_PEM = RSA.as_pem(private=False)


def confused(algorithm: str, secret: bytes) -> str:
    """Signed with a public key as if it were a secret."""
    head = b64(json.dumps({"alg": algorithm, "kid": "rsa-1"}).encode())
    signing = f"{head}.{b64(json.dumps(claims()).encode())}"
    return f"{signing}.{b64(hmac.new(secret, signing.encode(), hashlib.sha256).digest())}"


OWN_JWK = jwk(OTHER_RSA)
FORGED = {
    "none": (forged({"alg": "none"}, b"x"), "algorithm"),
    "None": (forged({"alg": "None", "kid": "rsa-1"}, b"x"), "algorithm"),
    "no signature": (forged({"alg": "none"}, b""), "malformed"),
    "no algorithm": (forged({"kid": "rsa-1"}, b"x"), "algorithm"),
    "an algorithm that is a list": (forged({"alg": ["RS256"]}, b"x"), "algorithm"),
    "HS256 with the public key": (confused("HS256", PUBLIC_PEM), "algorithm"),
    "HS256 with its DER": (confused("HS256", RSA.as_der(private=False)), "algorithm"),
    "a key of its own in the header": (signed(key=OTHER_RSA, kid="rsa-1", jwk=OWN_JWK), "header"),
    "an address of keys": (signed(key=OTHER_RSA, jku="https://evil.example/keys"), "header"),
    "a certificate's address": (signed(x5u="https://evil.example/x"), "header"),
    "a certificate": (signed(x5c=["MIIB"]), "header"),
    "something critical": (forged({"alg": "RS256", "crit": ["exp"], "exp": 1}, b"x"), "header"),
    "an unencoded payload": (forged({"alg": "RS256", "b64": False}, b"x"), "header"),
    "compressed": (forged({"alg": "RS256", "zip": "DEF"}, b"x"), "header"),
    "another type": (signed(typ="logout+jwt"), "header"),
    "a type that is no text": (forged({"alg": "RS256", "typ": 1}, b"x"), "header"),
    "a key id that is no text": (forged({"alg": "RS256", "kid": {"a": 1}}, b"x"), "header"),
    "another issuer's key of the same id": (signed(key=OTHER_RSA, kid="rsa-1"), "signature"),
    "a key that is not there": (signed(key=OTHER_RSA), "no_key"),
    "an EC key for RS256": (forged({"alg": "RS256", "kid": "ec-1"}, b"x"), "no_key"),
    "an RSA key for ES256": (forged({"alg": "ES256", "kid": "rsa-1"}, b"x" * 64), "no_key"),
    "an EC signature of zeros": (forged({"alg": "ES256", "kid": "ec-1"}, bytes(64)), "signature"),
    "a DER signature": (forged({"alg": "ES256", "kid": "ec-1"}, b"\x30\x06\x02\x01"), "signature"),
    "four parts": (signed() + ".x", "malformed"),
    "two parts": (signed().rpartition(".")[0], "malformed"),
    "a JWE": ("eyJ.a.b.c.d", "malformed"),
    "padding": (signed() + "=", "malformed"),
    "a line end": (signed() + "\n", "malformed"),
    "too long": (signed({**claims(), "x": "y" * jws.MOST_BYTES}), "malformed"),
    "a header that is no object": (f"{b64(b'[]')}.{b64(b'{}')}.eA", "malformed"),
    "two algorithms": (f'{b64(b"""{"alg":"RS256","alg":"none"}""")}.{b64(b"{}")}.eA', "malformed"),
    "JSON in UTF-16": (f"{b64(json.dumps({'alg': 'RS256'}).encode('utf-16'))}.eA.eA", "malformed"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_token_that_is_not_in_order_is_not_believed(name: str) -> None:
    token, reason = FORGED[name]
    assert why(token) == reason


@pytest.mark.parametrize(
    "text", ["", ".", "..", "...", "a.b", "é.é.é", "eyJ.!.!", " ", "\udcff.a.b"]
)
def test_what_is_no_token_is_not_believed(text: str) -> None:
    assert why(text) == "malformed"


def test_claims_that_stand_twice_are_not_believed() -> None:
    token = signed(b'{"tenant":"acme","tenant":"globex"}')
    with pytest.raises(NotAccepted):
        jws.read(token).claims()


@given(st.integers(min_value=0), st.integers(1, 63))
def test_a_token_with_one_changed_character_is_not_believed(at: int, turn: int) -> None:
    token, digits = signed(key=EC, algorithm="ES256"), "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    digits += digits.lower() + "0123456789-_"
    at %= len(token)
    if token[at] == ".":
        return
    other = digits[(digits.index(token[at]) + turn) % 64]
    assert why(f"{token[:at]}{other}{token[at + 1 :]}")


@pytest.mark.parametrize(("key", "algorithm"), [(RSA, "RS256"), (EC, "ES256")])
def test_a_signature_has_one_spelling(key: Any, algorithm: str) -> None:
    """The last letter of either has four bits that a lenient decoder drops."""
    token, digits = signed(key=key, algorithm=algorithm), "AQgw"
    assert token[-1] in digits
    others = [chr(ord(token[-1]) + 1), "-", "_"]
    for other in others:
        assert why(token[:-1] + other) in ("malformed", "signature")
    assert why(token[:-1] + others[0]) == "malformed", "its first bits are those of the right one"


def test_an_algorithm_that_its_issuer_does_not_use_is_not_believed() -> None:
    assert why(signed(), KEYS, "ES256") == "algorithm"
    assert why(signed(algorithm="RS512"), KEYS, "RS256") == "algorithm"


def test_a_token_without_a_key_id_needs_one_key_that_fits() -> None:
    token = signed(kid=None)
    assert verified(token)
    both = KeySet.from_document({"keys": [jwk(RSA), jwk(OTHER_RSA)]})
    assert why(token, both) == "no_key"


SECRET_KEY = OctKey.generate_key(256)
LEFT_OUT: dict[str, dict[str, Any]] = {
    "for encryption": jwk(RSA, use="enc"),
    "to sign only": jwk(RSA, key_ops=["sign"]),
    "symmetric": {**SECRET_KEY.as_dict(), "kid": "rsa-1"},
    "private": RSA.as_dict(private=True),
    "of 1024 bits": jwk(RSAKey.generate_key(1024, auto_kid=False), kid="rsa-1"),
    "with the exponent 1": jwk(RSA, e="AQ"),
    "without a modulus": jwk(RSA, n=None),
    "of a kind that nobody knows": jwk(RSA, kty="XYZ"),
    "for another algorithm": jwk(RSA, alg="RS512"),
    "off its curve": jwk(EC, kid="rsa-1", y=jwk(EC)["x"]),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_key_that_is_not_for_this_is_not_used(name: str) -> None:
    entry = {k: v for k, v in LEFT_OUT[name].items() if v is not None}
    assert why(signed(), KeySet.from_document({"keys": [entry]})) == "no_key"


@pytest.mark.parametrize("document", [{}, {"keys": None}, {"keys": {}}, {"keys": [1, "a", None]}])
def test_a_document_without_keys_has_none(document: dict[str, Any]) -> None:
    assert len(KeySet.from_document(document)) == 0


# Wycheproof

_SHARED = Path(__file__).parents[4] / "shared" / "data" / "corpora" / "wycheproof"
_VECTORS = Path(os.environ.get("SPILLWAY_WYCHEPROOF", _SHARED))
_FILES = ("json_web_signature_test", "json_web_key_test", "json_web_crypto_test")
_NOT_BY_ITS_ALGORITHM = {("json_web_signature_test", 350), ("json_web_signature_test", 351)}
"""Valid there, and refused here: the key says that it is for another algorithm than the token's
(PS256 and not PS384; ES521, which does not exist)."""


def _vectors() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for name in _FILES:
        for group in json.loads((_VECTORS / f"{name}.json").read_text())["testGroups"]:
            for vector in group["tests"]:
                if "jws" in vector:
                    yield name, group, vector


def _believed(group: dict[str, Any], token: object) -> bool:
    key = group.get("public", group["private"])
    keys = KeySet.from_document(key if "keys" in key else {"keys": [key]})
    try:
        verified(str(token), keys, *EVERY_ALGORITHM)
    except NotAccepted:
        return False
    return True


@pytest.mark.skipif(not _VECTORS.is_dir(), reason="Wycheproof's vectors are not on this machine")
def test_wycheproofs_vectors_are_believed_where_they_are_valid_and_nowhere_else() -> None:
    wrong, refused, believed, symmetric = [], 0, 0, 0
    for name, group, vector in _vectors():
        found = _believed(group, vector["jws"])
        if vector["result"] == "invalid":
            refused += not found
            if found:
                wrong.append((name, vector["tcId"], vector["comment"]))
        elif '"HS' in json.dumps(group):  # symmetric: not offered, however valid
            symmetric += 1
            assert not found
        else:
            believed += found
            if not found and (name, vector["tcId"]) not in _NOT_BY_ITS_ALGORITHM:
                wrong.append((name, vector["tcId"], vector["comment"]))
    assert wrong == []
    assert (refused, believed, symmetric) > (200, 15, 3)
