"""Signed notes and checkpoints as C2SP writes them (c2sp.org/signed-note and tlog-checkpoint), so
that whoever has the public key, and tools of others, can check a root without this gateway.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from gateway.accounting.audit import AuditError
from gateway.core import ambient

_ED25519 = b"\x01"  # the signature type of notes
_DASH = "\N{EM DASH} "
_KEY_BYTES = 32


class NoteInvalid(AuditError):
    pass


def decoded(text: str) -> bytes:
    """Of base64, in the one way to write it; nothing where it is another."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
    return raw if base64.b64encode(raw).decode() == text else b""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that signs under a name; its text form is the `vkey` of signed notes."""

    name: str
    raw: bytes

    @property
    def id(self) -> bytes:
        return hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + self.raw).digest()[:4]

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.raw).hexdigest()

    def __str__(self) -> str:
        key = base64.b64encode(_ED25519 + self.raw).decode()
        return f"{self.name}+{self.id.hex()}+{key}"

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        name, _, rest = text.strip().partition("+")
        key_id, _, key = rest.partition("+")
        raw = decoded(key)
        if not name or raw[:1] != _ED25519 or len(raw) != 1 + _KEY_BYTES:
            raise NoteInvalid("not a public key of the form name+id+base64")
        own_key = cls(name, raw[1:])
        if own_key.id.hex() != key_id:
            raise NoteInvalid("the id of the public key is not that of its name and bytes")
        return own_key

    def signed_text(self, note: str) -> str:
        """The text of a note that this key has signed. Raises NoteInvalid."""
        text, blank, signatures = note.rpartition("\n\n")
        if not blank or not signatures.endswith("\n"):
            raise NoteInvalid("not a signed note: no signature lines behind an empty line")
        text += "\n"
        for line in signatures.splitlines():
            name, _, encoded = line.removeprefix(_DASH).rpartition(" ")
            if not line.startswith(_DASH) or name != self.name:
                continue
            signature = decoded(encoded)
            if signature[:4] == self.id:
                self._check(text, signature[4:])  # guard: B4.note-signature
                return text
        raise NoteInvalid(f"not signed by {self.name} with key {self.id.hex()}")

    def _check(self, text: str, signature: bytes) -> None:
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, text.encode())
        except InvalidSignature:
            raise NoteInvalid(f"the signature of {self.name} does not fit the text") from None


class SigningKey:
    def __init__(self, name: str, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = PublicKey(name, key.public_key().public_bytes_raw())

    @classmethod
    def from_file(cls, path: Path, name: str) -> SigningKey:
        """The key in `path`, 32 bytes in hex; made there, for its owner alone, if there is none."""
        try:
            seed = bytes.fromhex(path.read_text().strip())
        except FileNotFoundError:
            seed = ambient.random_bytes(_KEY_BYTES)
            _write_private(path, seed.hex() + "\n")
        except ValueError:
            seed = b""
        except OSError as exc:
            raise AuditError(f"{path}: the signing key cannot be read: {exc.strerror}") from exc
        if len(seed) != _KEY_BYTES:
            raise AuditError(f"{path}: no signing key: it holds 64 hexadecimal digits and no more")
        return cls(name, Ed25519PrivateKey.from_private_bytes(seed))

    def sign(self, text: str) -> str:
        signature = base64.b64encode(self.public.id + self._key.sign(text.encode())).decode()
        return f"{text}\n{_DASH}{self.public.name} {signature}\n"


def _write_private(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(fd, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(fd)
    part.rename(path)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The head of a tree: its root at a size."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        lines = text.split("\n")
        if len(lines) < 4 or lines[-1] or not all(lines[:-1]):
            raise NoteInvalid("not a checkpoint: it has an origin, a size and a root, a line each")
        origin, size, encoded = lines[:3]
        if not size.isascii() or not size.isdigit() or (size[0] == "0" and size != "0"):
            raise NoteInvalid("not a checkpoint: its second line is no size")
        root = decoded(encoded)
        if len(root) != hashlib.sha256().digest_size:
            raise NoteInvalid("not a checkpoint: its third line is no root")
        return cls(origin, int(size), root)


def parse_checkpoint(note: str, key: PublicKey) -> Checkpoint:
    """Raises NoteInvalid where the key has not signed it, or it is of another chain."""
    checkpoint = Checkpoint.parse(key.signed_text(note))
    if checkpoint.origin != key.name:  # guard: B4.checkpoint-origin
        raise NoteInvalid(f"a checkpoint of {checkpoint.origin}, signed as {key.name}")
    return checkpoint


def notes_in(text: str) -> list[str]:
    """Notes written one behind the other, with an empty line between."""
    parts = text.split("\n\n")
    pairs = zip(parts[::2], parts[1::2], strict=False)
    return [f"{body}\n\n{signed.rstrip(chr(10))}\n" for body, signed in pairs]
