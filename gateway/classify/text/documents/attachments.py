"""Documents and pictures in the content parts of a call, taken out of it.

Only parts that are as the OpenAI API has them, with the content in a data URL and no other
field, and pictures in a form are taken. Any other stays where it is, and restricts the call as it
does when documents are not read: links, ids of stored files, audio, unknown fields.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.classify.text.documents import MOST_BYTES
from gateway.core.operations.media.files import UploadedFile
from gateway.core.types import DocumentCall, JsonDocument, Payload

_DATA_URL = re.compile(r"data:([a-z]+/[a-z0-9.+-]+);base64,([A-Za-z0-9+/]+={0,2})")
_LISTS = ("messages", "input")
_DETAIL = frozenset({"auto", "low", "high", "original", None})


@dataclass(frozen=True, slots=True)
class Attachment:
    media_type: str
    base64: str = field(repr=False)
    filename: str = field(default="", repr=False)


def detach(payload: Payload) -> tuple[Payload, list[Attachment]]:
    """The call without the parts that can be read as documents, and these."""
    attachments: list[Attachment] = []
    if not isinstance(payload, DocumentCall):
        return payload, attachments
    document: JsonDocument = dict(payload.document)
    for name in _LISTS:
        if isinstance(turns := document.get(name), list):
            document[name] = [_without(turn, attachments) for turn in turns]
    files = tuple([_without_picture(file, attachments) for file in payload.files])
    if not attachments:
        return payload, attachments
    return replace(payload, document=document, files=files), attachments


def _without_picture(file: UploadedFile, attachments: list[Attachment]) -> UploadedFile:
    """A picture's text is read; its name, as any, with the call's."""
    if file.holds != "image" or not file.media_type.startswith("image/"):
        return file
    if len(file.content) > MOST_BYTES:
        return file
    base64 = b64encode(file.content).decode("ascii")
    attachments.append(Attachment(file.media_type, base64, file.filename))
    return replace(file, content=b"", holds="")


def _without(turn: Any, attachments: list[Attachment]) -> Any:
    content = turn.get("content") if isinstance(turn, dict) else None
    if not isinstance(content, list):
        return turn
    rest = []
    for part in content:
        attachment = _attachment(part) if isinstance(part, dict) else None
        if attachment is None:
            rest.append(part)
        else:
            attachments.append(attachment)
    return turn if len(rest) == len(content) else turn | {"content": rest}


def _attachment(part: dict[str, Any]) -> Attachment | None:
    match part:
        case {"type": "image_url", "image_url": {"url": str(url), **options}, **more}:
            return _picture(url, options) if not more else None
        case {"type": "input_image", "image_url": str(url), **options}:
            return _picture(url, options)
        case {"type": "file", "file": {"file_data": str(url), **named}, **more}:
            return _file(url, named) if not more else None
        case {"type": "input_file", "file_data": str(url), **named}:
            return _file(url, named)
    return None


def _picture(url: str, options: Mapping[Any, Any]) -> Attachment | None:
    detail = options.get("detail")
    if options.keys() - {"detail"} or not (detail is None or detail in _DETAIL):
        return None
    one = _decoded(url, "")
    return one if one is not None and one.media_type.startswith("image/") else None


def _file(url: str, named: Mapping[Any, Any]) -> Attachment | None:
    filename = named.get("filename", "")
    if named.keys() - {"filename"} or not isinstance(filename, str):
        return None
    return _decoded(url, filename)


def _decoded(url: str, filename: str) -> Attachment | None:
    whole = _DATA_URL.fullmatch(url)
    return None if whole is None else Attachment(whole[1], whole[2], filename)
