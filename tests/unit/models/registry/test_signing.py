"""Signed versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.models.registry import RegistryError, UnfitVersion, signing
from gateway.models.registry.kinds.directory import DirectoryRegistry
from gateway.models.registry.pushing import Push, push
from tests.unit.models.registry import rig
from tests.unit.models.registry.rig import NAME, pulled

pytest.importorskip("cryptography", reason="signatures need it")


def keys(directory: Path) -> tuple[Path, Path]:
    """A private and a public one."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    directory.mkdir(parents=True, exist_ok=True)
    private, public = directory / "key.pem", directory / "key.pub.pem"
    private.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    public.write_bytes(
        key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


def test_where_a_key_is_named_only_what_it_signed_is_pulled(tmp_path: Path) -> None:
    private, public = keys(tmp_path / "ours")
    _, another = keys(tmp_path / "another")
    other = rig.repository(tmp_path / "elsewhere", 2)
    shelf = DirectoryRegistry(tmp_path / "shelf")
    assert push(Push(other, NAME, sign=private), shelf).signed
    repository = rig.repository(tmp_path)
    with pytest.raises(UnfitVersion, match="the signature of the manifest is not of the key"):
        pulled(repository, shelf, public_key=another)
    version = tmp_path / "shelf" / NAME / "2"
    text = (version / "files" / "runtime.py").read_bytes()
    signed = (version / "manifest.json").read_bytes()
    rig.rewritten(version, runtime_dot_py=text + b"# changed by somebody who can write here\n")
    with pytest.raises(UnfitVersion, match="the signature of the manifest is not of the key"):
        pulled(repository, shelf, public_key=public)
    (version / "files" / "runtime.py").write_bytes(text)
    (version / "manifest.json").write_bytes(signed)
    assert pulled(repository, shelf, public_key=public).installed


def test_a_version_that_is_not_signed_is_refused_where_a_key_is_named(tmp_path: Path) -> None:
    _, public = keys(tmp_path / "ours")
    shelf = rig.shelf(tmp_path)
    with pytest.raises(UnfitVersion, match="the version is not signed"):
        pulled(rig.repository(tmp_path), DirectoryRegistry(shelf), public_key=public)


@pytest.mark.parametrize("signature", [b"", b"AAAA", b"\xff\xfe", b"A" * 88, b"=" * 20])
def test_what_is_no_signature_signs_nothing(signature: bytes, tmp_path: Path) -> None:
    _, public = keys(tmp_path)
    with pytest.raises(UnfitVersion, match="is not of the key"):
        signing.check(b"manifest", signature, public)


@pytest.mark.parametrize("content", [b"", b"no key", None])
def test_what_is_no_key_is_refused(content: bytes | None, tmp_path: Path) -> None:
    private, public = keys(tmp_path / "ours")
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(RegistryError, match="is no Ed25519 public key"):
        signing.check(b"manifest", b"", file)
    with pytest.raises(RegistryError, match="is no Ed25519 key in PEM"):
        signing.sign(b"manifest", file)
    with pytest.raises(RegistryError, match="is no Ed25519 public key"):
        signing.check(b"manifest", b"", private)
    with pytest.raises(RegistryError, match="is no Ed25519 key in PEM"):
        signing.sign(b"manifest", public)
