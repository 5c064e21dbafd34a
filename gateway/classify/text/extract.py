"""Which text of a call is read, and what of it cannot be (C2, C3, C6).

Everything is read: every key and every value, wherever it stands, known field or not. The rules
below only say what is *not* text: pictures, sound, files, token ids, references to what is stored
elsewhere. Such a call is unscannable, hence restricted.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any

from gateway.classify.text.collect import (
    LABELS,
    LEAST_LONG,
    LEAST_SHORT,
    OVER_CAP,
    PROTOCOL_WORDS,
    TextCollector,
    Unscannable,
)
from gateway.config.model_catalog import CatalogModel
from gateway.core.operations.dialects.responses.chat import signed_thought
from gateway.core.operations.media.files import UploadedFile
from gateway.core.types import (
    DocumentCall,
    JsonDocument,
    Parameter,
    Payload,
    Tensor,
    TensorCall,
)

__all__ = [
    "OVER_CAP",
    "TENSOR_CLASS",
    "UNDECLARED",
    "UNKNOWN_TENSORS",
    "Unscannable",
    "extract_texts",
]
TENSOR_CLASS, UNDECLARED = "tensor_class", "undeclared_model"
UNKNOWN_TENSORS = "tensors_unknown"
"""Of a call whose tensors could leave as they are, and nobody has said which the model has."""

_ENCRYPTED = "encrypted_content"
# Fields whose content is not in the call, or is not text (OpenAI API reference, November 2026).
_OPAQUE_FIELDS = {
    **dict.fromkeys(("image_url", "image_file", "input_image"), "image"),
    **dict.fromkeys(("input_audio", "audio_url"), "audio"),
    **dict.fromkeys(("video_url", "input_video"), "video"),
    **dict.fromkeys(("file_id", "file_ids", "file_data", "file_url"), "file"),
    **dict.fromkeys(("previous_response_id", "conversation", "vector_store_ids"), "stored"),
    **dict.fromkeys(("cached_content", "cachedContent", "thread_id", "assistant_id"), "stored"),
    **dict.fromkeys(("container", "server_url", "connector_id"), "hosted_tool"),
    "web_search_options": "hosted_tool",
    _ENCRYPTED: "encrypted",
}
# Common words too, so only where they hold an object that carries or names content.
_MEDIA_OBJECTS = frozenset({"audio", "file", "image", "video"})
_MEDIA_KEYS = frozenset({"id", "data", "url", "file_id", "file_data", "filename"})
_TELLING_KEYS = _MEDIA_OBJECTS.union(_OPAQUE_FIELDS)
# Under these, keys are names of fields or labels of the caller's: nothing is fetched by them.
_NAMES_ONLY = frozenset({"properties", "metadata"})
_TEXT_PARTS = frozenset(
    {"text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text"}
)
_MEDIA_PARTS = {
    **dict.fromkeys(("image_url", "input_image", "image"), "image"),
    **dict.fromkeys(("input_audio", "audio_url", "audio"), "audio"),
    **dict.fromkeys(("video_url", "input_video", "video"), "video"),
    **dict.fromkeys(("file", "input_file", "document"), "file"),
}
_ITEMS = frozenset(
    {
        "message",
        "text",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "reasoning",
    }
)
_WHO_SAYS_WHAT = frozenset({"role", "content"})
_STRINGS = frozenset({str})
_TOOLS = frozenset({"function", "custom"})
_MANY = 16  # numbers in a list, from which on they are looked at together
_NO_CHAT = frozenset({"prompt", "input", "tokens", "tools"})
_PART_LISTS = frozenset({"content", "output", "summary"})


def extract_texts(payload: Payload, model: CatalogModel, max_bytes: int) -> list[str]:
    """What is to be scanned of a call. Raises Unscannable."""
    if not model.declared:
        raise Unscannable(UNDECLARED)
    collector = TextCollector(max_bytes)
    if isinstance(payload, DocumentCall):
        if not _NO_CHAT.isdisjoint(payload.document):
            _mark_inputs(payload, collector)
        _walk(payload.document, collector)
        if payload.inexact:  # guard: C22.inexact-text
            collector.mark("token_ids")
        if payload.files:
            _files(payload.files, collector)
    else:
        _tensors(payload, model, collector)
    return collector.texts()


def _files(files: tuple[UploadedFile, ...], collector: TextCollector) -> None:
    for file in files:
        collector.values((file.filename,))  # guard: S17.filename
        collector.text(file.name)
        collector.text(file.media_type)
        if file.holds:  # guard: S17.unread-file
            collector.mark(file.holds)


def _mark_inputs(call: DocumentCall, collector: TextCollector) -> None:
    """What of these fields is not text, nor of those that other operations have beside them."""
    document = call.document
    for field, holds in call.operation.references.items():
        if document.get(field) is not None:  # guard: S17.references
            collector.mark(holds)
    for field in ("prompt", "input", "tokens"):  # guard: S17.token-ids without "tokens"
        _token_ids(document.get(field), collector)
    if isinstance(document.get("prompt"), dict):
        collector.mark("stored")  # a reference to a prompt that the provider keeps
    for item in _dicts(document.get("input")):
        if _type(item, "message") not in _ITEMS:
            collector.mark("item_type")
    for tool in _dicts(document.get("tools")):
        if _type(tool, "function") not in _TOOLS:
            collector.mark("hosted_tool")


def _token_ids(value: Any, collector: TextCollector) -> None:
    if isinstance(value, list):
        for item in value:
            collector.count()
            if type(item) in (int, float) or isinstance(item, list):
                collector.mark("token_ids")
                return


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _walk(document: JsonDocument, collector: TextCollector) -> None:
    """Every key and value in the order of the document, without recursion."""
    open_: list[tuple[str, Iterator[Any], bool]] = [("", _entered("", document, collector), True)]
    while open_:
        field, items, keyed = open_[-1]
        for item in items:
            if keyed:
                key, item = item
                if type(key) is not str:
                    collector.mark("value_type")
                    continue
                field = key
                if field not in PROTOCOL_WORDS:
                    collector.text(field)
            kind = type(item)
            if kind is str:
                if keyed and field in LABELS:
                    collector.text(item)
                else:
                    collector.values((item,))
            elif (
                kind is dict
                and item.keys() == _WHO_SAYS_WHAT  # words that nobody has to look at
                and _STRINGS.issuperset(map(type, item.values()))
            ):
                collector.count(4)
                for name, text in item.items():
                    if name == "role":
                        collector.text(text)
                    else:
                        collector.values((text,))
            elif kind is dict or kind is list:
                open_.append((field, _entered(field, item, collector), kind is dict))
                break
            elif kind is int or kind is float:
                if not LEAST_SHORT < item < LEAST_LONG:
                    collector.number(item)
            elif item is not None and kind is not bool:
                collector.mark("value_type")
        else:
            open_.pop()


def _entered(
    field: str, value: dict[Any, Any] | list[Any], collector: TextCollector
) -> Iterator[Any]:
    """The items of an object or a list, once its own fields were looked at."""
    if isinstance(value, dict):
        collector.count(2 * len(value))
        if not _TELLING_KEYS.isdisjoint(value) and field not in _NAMES_ONLY:
            for key, item in value.items():
                if key in _TELLING_KEYS and item is not None:
                    _read_item(key, item, collector)
        return iter(value.items())
    if field in _PART_LISTS:
        _parts(value, collector)
    collector.count(len(value))
    if value and type(value[0]) is not dict:
        collector.characters(value)
        collector.elements(value)
    if len(value) > _MANY and {int}.issuperset(map(type, value)) and collector.are_short(value):
        return iter(())
    return iter(value)


def _read_item(key: str, item: Any, collector: TextCollector) -> None:
    if key in _MEDIA_OBJECTS and isinstance(item, dict) and not _MEDIA_KEYS.isdisjoint(item):
        collector.mark(key)
    elif key in _OPAQUE_FIELDS:
        # the signature of a chat's thought, which is read as those of chats are
        # guard: S14.signed-thoughts always
        if key == _ENCRYPTED and signed_thought(item) is not None:
            return
        collector.mark(_OPAQUE_FIELDS[key])


def _parts(parts: list[Any], collector: TextCollector) -> None:
    for part in parts:
        kind = _type(part, "") if isinstance(part, dict) else ""
        if kind not in _TEXT_PARTS and type(part) is not str:
            collector.mark(_MEDIA_PARTS.get(kind, "part_type"))


def _type(item: dict[str, Any], default: str) -> str:
    kind = item.get("type", default)
    return kind if isinstance(kind, str) else ""


def _tensors(call: TensorCall, model: CatalogModel, collector: TextCollector) -> None:
    if call.id:
        collector.text(call.id)
    if call.version:
        collector.text(call.version)  # up to 18 digits of the caller's choice
    if call.parameters:
        _parameters(call.parameters.items(), collector)
    for output in call.outputs:
        collector.text(output.name)
        if output.parameters:
            _parameters(output.parameters.items(), collector)
    for tensor in call.inputs:
        collector.count()
        collector.text(tensor.name)
        shape = tensor.shape
        if shape and not collector.are_short(shape):
            for dimension in shape:
                collector.number(dimension)
        if tensor.parameters:
            _parameters(tensor.parameters.items(), collector)
        declared_text = tensor.datatype == "BYTES" and tensor.name in model.text_inputs
        if tensor.datatype == "BYTES":
            _elements(tensor, collector, must_be_text=declared_text)
        if not declared_text and not model.tensors_clear and collector.unscannable is None:
            collector.unscannable = TENSOR_CLASS


def _parameters(parameters: Any, collector: TextCollector) -> None:
    for name, value in parameters:
        collector.count()
        collector.text(name)
        _parameter(name, value, collector)


def _parameter(name: str, value: Parameter, collector: TextCollector) -> None:
    if name.startswith("shared_memory"):
        collector.mark("shared_memory")
    elif isinstance(value, str):
        collector.text(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        collector.number(value)


def _elements(tensor: Tensor, collector: TextCollector, *, must_be_text: bool) -> None:
    """The elements of a BYTES tensor. What its declaration does not call text is scanned as far as
    it is text, and else has the class of the model's tensors."""
    at, data = 0, tensor.data
    collector.count(math.prod(tensor.shape))  # at once: too many are not looked at one by one
    while at < len(data):
        if at + 4 > len(data):
            collector.mark("tensor_bytes")
            return
        (length,) = struct.unpack_from("<I", data, at)
        at += 4 + length
        if at > len(data):
            collector.mark("tensor_bytes")
            return
        try:
            collector.text(data[at - length : at].decode("utf-8"))
        except UnicodeDecodeError:
            if must_be_text:
                collector.mark("not_utf8")
