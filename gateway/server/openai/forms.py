"""The form of a call that brings a file: its texts as a document, its files beside that."""

from __future__ import annotations

from typing import Any

from gateway.core.errors import MISSING, InvalidField, MalformedBody
from gateway.core.operations.media.files import UploadedFile
from gateway.core.operations.spec import OperationSpec
from gateway.core.types import JsonDocument
from gateway.protocols import multipart
from gateway.protocols.multipart import FormPart

_LIST = "[]"  # ends the name of a field that may stand several times
_STREAM = {"true": True, "True": True, "false": False, "False": False}
_FILE = "file"  # what a file holds in a field that the operation does not know


def read(
    operation: OperationSpec, body: bytes, boundary: bytes
) -> tuple[JsonDocument, tuple[UploadedFile, ...]]:
    """Raises MalformedBody, BodyTooLarge, InvalidField."""
    document: dict[str, Any] = {}
    files: list[UploadedFile] = []
    for part in multipart.parse(body, boundary):
        if part.filename is not None:
            holds = operation.files.get(part.name.removesuffix(_LIST), _FILE)
            files.append(
                UploadedFile(part.name, part.filename, part.media_type, part.content, holds)
            )
        elif part.name.endswith(_LIST):
            document.setdefault(part.name, []).append(_text(part))
        else:
            document[part.name] = _text(part)
    if (streamed := document.get("stream")) in _STREAM:
        document["stream"] = _STREAM[streamed]
    required = next(iter(operation.files))
    if not any(file.name.removesuffix(_LIST) == required for file in files):
        raise InvalidField(required, "is required, as a file with its name", MISSING)
    return document, tuple(files)


def _text(part: FormPart) -> str:
    try:
        return part.content.decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedBody("the form has a text that is not UTF-8") from None
