"""What the body of an OpenAI call must hold for us to place it.

Only that is checked which the gateway itself must know. Every other key goes on as it is, read for
personal data like the rest, and the endpoint judges it.
"""

from __future__ import annotations

from typing import Any

from gateway.auth.caller import ANYONE, Caller
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.config.token_encoding import TokenEncoding, UnknownTokens
from gateway.core.errors import MISSING, WRONG_TYPE, InvalidField
from gateway.core.operations.media.files import UploadedFile
from gateway.core.operations.spec import OperationSpec, StreamForm
from gateway.core.types import DocumentCall, JsonDocument
from gateway.server import labels


def read(
    operation: OperationSpec,
    document: JsonDocument,
    catalog: Catalog,
    size: int = 0,
    json_bytes: int = 0,
    deployment: str = "",
    caller: Caller = ANYONE,
) -> tuple[CatalogModel, DocumentCall]:
    """The model, and the call; `size`: bytes of a large one, `json_bytes`: those of `document`
    where they are known; `deployment`: the model that the path names, whatever the body says;
    `caller` may have names of its own for models.
    Raises InvalidField, UnknownModel."""
    if deployment:
        document["model"], json_bytes = deployment, 0
    name = document.get("model")
    if not isinstance(name, str):
        name = _only_model(operation, catalog, name)
    model = catalog.find(caller.named(name))
    if model.task != operation.task:
        raise InvalidField(
            "model", f"is a model of task {model.task}, which {operation.path} cannot serve"
        )
    if model.requests is not None:
        document, json_bytes = model.requests.applied(document), 0
    streamed = document.get("stream", False)
    if streamed is not False and streamed is not None:
        _check_stream(streamed, operation)
    operation.check(document)
    labels.check_document(document)
    call = DocumentCall(operation, document, streamed is True, size)
    call.json_bytes = json_bytes  # type: ignore[misc] # no copy shall have it
    if model.token_encoding is not None and operation.token_field:
        call = _detokenised(call, operation.token_field, model.token_encoding)
    return model, call


def described_files(operation: OperationSpec) -> tuple[UploadedFile, ...]:
    """Of a call that is only described: as unreadable as the file that it requires."""
    required = tuple(operation.files.items())[:1]
    return tuple([UploadedFile(name, "", "", b"", holds) for name, holds in required])


def _only_model(operation: OperationSpec, catalog: Catalog, name: object) -> str:
    """Of a call that does not say it. Raises InvalidField."""
    names = [model.name for model in catalog.models.values() if model.task == operation.task]
    if name is None and operation.model_optional and len(names) == 1:
        return names[0]
    raise _no_name(name)


def _no_name(name: object) -> InvalidField:
    if name is None:
        return InvalidField("model", "is required; GET /v1/models lists the names", MISSING)
    return InvalidField("model", "must be a string", WRONG_TYPE)


def _check_stream(streamed: Any, operation: OperationSpec) -> None:
    if not isinstance(streamed, bool):
        raise InvalidField("stream", "must be true or false", WRONG_TYPE)
    if streamed and operation.stream is StreamForm.NONE:
        raise InvalidField("stream", f"answers of {operation.path} are not streamed; leave it out")


def _detokenised(call: DocumentCall, key: str, encoding: TokenEncoding) -> DocumentCall:
    """The call with the texts that its token ids stand for: they are what is read and sent on."""
    given = call.document[key]
    if not isinstance(given, list) or isinstance(given[0], str):
        return call
    try:
        texts, exact = encoding.texts(given)
    except UnknownTokens as exc:
        raise InvalidField(key, str(exc)) from None
    # guard: C22.tokens-read -> return call
    document, size = {**call.document, key: texts}, max(call.size, sum(map(len, texts)))
    return DocumentCall(call.operation, document, call.streamed, size, inexact=not exact)
