"""The headers, parts and attachments of an e-mail message."""

from __future__ import annotations

import email
import email.policy
from collections.abc import Callable
from email.message import EmailMessage

from gateway.classify.text.documents import EMBEDDED, ENCRYPTED, FORMAT, Room, Unread, markup

Read = Callable[[bytes, str, Room], None]

_SEALED = frozenset(
    {"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"}
    | {"application/pgp-encrypted"}
)
_MOST_PARTS = 200


def read(data: bytes, room: Room, read_document: Read) -> None:
    """`read_document`: reads an attachment. Raises Unread."""
    message = email.message_from_bytes(data, policy=email.policy.default)
    if not message.keys():
        raise Unread(FORMAT)
    for at, part in enumerate(message.walk()):
        if at >= _MOST_PARTS:
            raise Unread(EMBEDDED)
        _read_part(part, room, read_document)


def _read_part(part: EmailMessage, room: Room, read_document: Read) -> None:
    if part.defects:  # guard: K2.mail-defects
        raise Unread(FORMAT)
    kind = part.get_content_type()
    if kind in _SEALED:  # guard: K2.mail-encrypted
        raise Unread(ENCRYPTED)
    heads = "\n".join(f"{name}: {value}" for name, value in part.items())
    room.text(heads.replace(part.get_boundary() or "\n\n", ""))
    room.text(part.preamble or "")
    room.text(part.epilogue or "")
    if part.is_multipart():
        return
    content = part.get_content()
    if isinstance(content, str):
        if "\ufffd" in content:
            raise Unread(FORMAT)
        if kind == "text/html":
            markup.read(content, room)
        room.text(content)
    elif isinstance(content, bytes):
        room.unpack(len(content))
        read_document(content, kind, room)
    else:
        raise Unread(EMBEDDED)
