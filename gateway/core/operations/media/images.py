"""Pictures: made of a prompt, changed, or made anew from one."""

from __future__ import annotations

from typing import Any, Final

from gateway.core.errors import WRONG_TYPE, InvalidField
from gateway.core.operations.body import required
from gateway.core.operations.capabilities import PLAIN
from gateway.core.operations.spec import OperationSpec, StreamForm

_FIELDS: Final = (
    "model", "prompt", "n", "size", "quality", "style", "background", "moderation",
    "output_format", "output_compression", "response_format", "input_fidelity", "stream",
    "partial_images", "user",
)  # fmt: skip


def _check(document: dict[str, Any]) -> None:
    if not isinstance(required(document, "prompt"), str):
        raise InvalidField("prompt", "must be a string", WRONG_TYPE)


GENERATIONS: Final = OperationSpec(
    name="images.generations",
    task="images",
    path="/v1/images/generations",
    check=_check,
    references=dict.fromkeys(("image", "images", "mask"), "image"),  # of providers that edit by it
    fields=dict.fromkeys(_FIELDS, PLAIN),
    stream=StreamForm.MEDIA,
)
EDITS: Final = OperationSpec(
    name="images.edits",
    task="images",
    path="/v1/images/edits",
    check=_check,
    files={"image": "image", "mask": "image"},
    fields=dict.fromkeys(_FIELDS, PLAIN),
    stream=StreamForm.MEDIA,
)
VARIATIONS: Final = OperationSpec(
    name="images.variations",
    task="images",
    path="/v1/images/variations",
    files={"image": "image"},
    fields=dict.fromkeys(_FIELDS, PLAIN),
)
