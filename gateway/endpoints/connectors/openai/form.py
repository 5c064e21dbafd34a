"""The fields of a form, out of the texts and the files of a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.core.operations.media.files import UploadedFile
from gateway.protocols import strictjson
from gateway.protocols.multipart import FormPart


def form_parts(document: Mapping[str, Any], files: Sequence[UploadedFile]) -> Iterator[FormPart]:
    """Texts first: a reader may want the model's name before it takes a file."""
    for name, value in document.items():
        for each in value if isinstance(value, list) else (value,):
            text = each.encode() if isinstance(each, str) else strictjson.dumps(each)
            yield FormPart(name, text)
    for file in files:
        yield FormPart(file.name, file.content, file.filename, file.media_type)
