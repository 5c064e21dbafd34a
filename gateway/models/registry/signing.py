"""Ed25519 signatures of manifests.

A manifest protects against accidents and against whoever can change files but not the manifest.
Against whoever can write to the registry only a signature does, checked with a public key that came
another way.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.models.registry import RegistryError, UnfitVersion

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

MOST_BYTES = 200  # of a signature's text: 64 bytes in base64, and a line end
_INSTALL = "signatures need the package cryptography: pip install cryptography"


def sign(manifest: bytes, key_file: Path) -> bytes:
    return base64.b64encode(_private(key_file).sign(manifest)) + b"\n"


def check(manifest: bytes, signature: bytes | None, key_file: Path) -> None:
    """Raises Unfit unless the holder of the key wrote exactly this."""
    key = _public(key_file)
    if signature is None:
        raise UnfitVersion(
            "the version is not signed, and this registry has a public_key: push it with --sign"
        )
    from cryptography.exceptions import InvalidSignature  # optional, and `_public` has found it

    try:
        key.verify(base64.b64decode(signature.strip(), validate=True), manifest)
    except (binascii.Error, InvalidSignature, ValueError):
        raise UnfitVersion(
            f"the signature of the manifest is not of the key in {key_file}: the version was "
            "changed, or somebody else signed it. Do not serve it before you know which"
        ) from None


def _private(path: Path) -> Ed25519PrivateKey:
    try:
        from cryptography.hazmat.primitives import serialization  # optional
        from cryptography.hazmat.primitives.asymmetric import ed25519  # optional
    except ImportError:
        raise RegistryError(_INSTALL) from None
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        key = None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise RegistryError(
            f"{path} is no Ed25519 key in PEM without a passphrase; make one with "
            "`openssl genpkey -algorithm ed25519`"
        )
    return key


def _public(path: Path) -> Ed25519PublicKey:
    try:
        from cryptography.hazmat.primitives import serialization  # optional
        from cryptography.hazmat.primitives.asymmetric import ed25519  # optional
    except ImportError:
        raise RegistryError(_INSTALL) from None
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (OSError, ValueError):
        key = None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise RegistryError(
            f"{path} is no Ed25519 public key in PEM; `openssl pkey -in KEY -pubout` writes one"
        )
    return key
