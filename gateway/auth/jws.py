"""Signed tokens (JWS compact, RFC 7515) and the public keys that verify them (RFC 7517), as strict
as RFC 8725 advises: no `none`, nothing symmetric, no key or address of a key out of a token, and
nothing in a header that the verifier would have to understand and does not.

joserfc does the cryptography. What a token says is read here first, by the same strict JSON as
every body, so that no two parsers can read two things in it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jwk import import_key as joserfc_key

from gateway.auth.refusal import NotAccepted
from gateway.core.errors import MalformedBody
from gateway.protocols import strictjson

MOST_BYTES = 8192
_COMPACT = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)\.([A-Za-z0-9_-]+)")
_NEVER = frozenset({"crit", "jku", "jwk", "x5u", "x5c", "b64", "zip", "enc"})
"""Keys and addresses of keys that anybody could put there, and extensions that change what is
signed."""
_TYPES = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})
_CURVES = {
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
    "EdDSA": "Ed25519",
    "Ed25519": "Ed25519",
}
_RSA_LEAST_BITS, _RSA_MOST_BITS = 2048, 8192
_ROCA_PRIMES = (
    3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97,
    101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167,
)  # fmt: skip

Key = RSAKey | ECKey | OKPKey


@dataclass(frozen=True, slots=True)
class Token:
    """One that has been read and not verified."""

    text: str = field(repr=False)
    algorithm: str
    key_id: str | None
    payload: bytes = field(repr=False)

    def claims(self) -> Mapping[str, Any]:
        """Raises NotAccepted."""
        try:
            # guard: B6.duplicate-claims -> import json; return json.loads(self.payload)
            return strictjson.load_object(self.payload)
        except MalformedBody:
            raise NotAccepted("malformed") from None


def read(text: str) -> Token:
    """Raises NotAccepted."""
    parts = _COMPACT.fullmatch(text) if len(text) <= MOST_BYTES else None
    if parts is None:
        raise NotAccepted("malformed")
    head, payload, _ = (_decoded(part) for part in parts.groups())
    try:
        header = strictjson.load_object(head)
    except MalformedBody:
        raise NotAccepted("malformed") from None
    algorithm, key_id, kind = (header.get(k) for k in ("alg", "kid", "typ"))
    # guard: B6.embedded-keys minus 1
    if not _NEVER.isdisjoint(header) or not (key_id is None or isinstance(key_id, str)):
        raise NotAccepted("header")
    if kind is not None and (not isinstance(kind, str) or kind.lower() not in _TYPES):
        raise NotAccepted("header")
    if not isinstance(algorithm, str):
        raise NotAccepted("algorithm")
    return Token(text, algorithm, key_id, payload)


class KeySet:
    """The public keys of one issuer."""

    def __init__(self, keys: Iterable[tuple[Mapping[str, Any], Key]]) -> None:
        self._keys = tuple(keys)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> KeySet:
        """Of a JWKS document; keys that nothing may be verified with are left out."""
        listed = document.get("keys")
        entries = listed if isinstance(listed, list) else []
        read = ((entry, _key(entry)) for entry in entries if isinstance(entry, dict))
        return cls((entry, key) for entry, key in read if key is not None)

    def __len__(self) -> int:
        return len(self._keys)

    def has(self, key_id: str | None) -> bool:
        return any(entry.get("kid") == key_id for entry, _ in self._keys)

    def verify(self, token: Token, algorithms: Iterable[str]) -> None:
        """Raises NotAccepted."""
        if token.algorithm not in algorithms:  # guard: B6.issuer-algorithms
            raise NotAccepted("algorithm")
        key = self._matching_key(token)
        try:
            jws.deserialize_compact(token.text, key, algorithms=[token.algorithm])
        except (JoseError, ValueError, TypeError):
            raise NotAccepted("signature") from None

    def _matching_key(self, token: Token) -> Key:
        """The one key that fits: which of several was meant is not tried out."""
        fit = [
            key
            for entry, key in self._keys
            if token.key_id in (None, entry.get("kid")) and _fits(entry, token.algorithm)
        ]
        if len(fit) != 1:  # guard: B6.single-key-match len(fit) != 1 -> not fit
            raise NotAccepted("no_key")
        return fit[0]


def _decoded(part: str) -> bytes:
    """Base64url in its one spelling: what a lenient decoder drops was signed as well."""
    try:
        raw = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except binascii.Error:
        raise NotAccepted("malformed") from None
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != part:  # guard: B6.base64-spelling
        raise NotAccepted("malformed")
    return raw


def _fits(entry: Mapping[str, Any], algorithm: str) -> bool:
    if entry.get("alg") not in (None, algorithm):  # guard: B6.key-algorithm
        return False
    if algorithm[:2] in ("RS", "PS"):
        return bool(entry["kty"] == "RSA")
    return bool(entry.get("crv") == _CURVES.get(algorithm))


def _key(entry: Mapping[str, Any]) -> Key | None:
    """None for a key of another use or kind, a private one, and one that is too weak."""
    # guard: B6.private-key minus 2
    if entry.get("kty") not in ("RSA", "EC", "OKP") or "d" in entry:
        return None
    operations = entry.get("key_ops")
    # guard: B6.key-use minus 1
    if entry.get("use", "sig") != "sig" or not (operations is None or "verify" in operations):
        return None
    try:
        key = joserfc_key({k: v for k, v in entry.items() if isinstance(v, str)})
        public = key.get_op_key("verify")
    except (JoseError, ValueError, TypeError):
        return None
    if isinstance(public, rsa.RSAPublicKey) and _weak(public.public_numbers()):
        return None
    return key if isinstance(key, RSAKey | ECKey | OKPKey) else None


def _weak(numbers: rsa.RSAPublicNumbers) -> bool:
    bits = numbers.n.bit_length()
    wrong_size = not _RSA_LEAST_BITS <= bits <= _RSA_MOST_BITS
    # guard: B6.weak-key -> return False
    return wrong_size or numbers.e < 3 or numbers.e % 2 == 0 or _roca(numbers.n)


def _roca(modulus: int) -> bool:
    """Of the generator of CVE-2017-15361: every small remainder of such a modulus is a power of
    65537 (Nemec et al., The Return of Coppersmith's Attack, 2017)."""
    return all(modulus % p in {pow(65537, k, p) for k in range(p)} for p in _ROCA_PRIMES)
