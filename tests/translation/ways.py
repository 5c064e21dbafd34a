"""Fronts, which make calls of bodies, and providers, to which calls go, by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.auth.caller import ANYONE
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.deadline import Deadline
from gateway.core.errors import InvalidField
from gateway.core.operations.capabilities import INCIDENTAL
from gateway.core.operations.chat import CHAT
from gateway.core.operations.dialects.openai import spoken
from gateway.core.types import (
    CLOUD,
    DocumentCall,
    Endpoint,
    InferenceRequest,
    ServedModel,
    WireProtocol,
)
from gateway.endpoints.connectors.openai.dialects.anthropic.request import request as messages
from gateway.endpoints.connectors.openai.dialects.bedrock.request import request as converse
from gateway.endpoints.connectors.openai.dialects.cohere.request import request as cohere_chats
from gateway.endpoints.connectors.openai.dialects.gemini.request import request as contents
from gateway.endpoints.connectors.triton.openai_prompts import ask
from gateway.scheduling.routing.needs import lacking
from gateway.server.dialects.anthropic import front as anthropic
from gateway.server.dialects.bedrock import front as bedrock
from gateway.server.dialects.cohere import front as cohere
from gateway.server.dialects.gemini import front as gemini
from gateway.server.dialects.head import TranslatedBody, read_call
from gateway.server.openai.documents import read
from tests import anthropic_api, bedrock_api, chat_api, cohere_api, gemini_api

Document = dict[str, Any]
Described = Callable[[str, Document], TranslatedBody | None]
CATALOG = Catalog({"m": CatalogModel("m", "generate", ())})
SERVED = ServedModel("m")
ROUTES: dict[str, str] = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/m:generateContent",
    "converse": "/model/m/converse",
    "cohere": "/v2/chat",
}
FRONTS: dict[str, Callable[[Document], DocumentCall]] = {
    "chat": lambda body: read(CHAT, body, CATALOG)[1],
    "messages": lambda body: _described(anthropic.described, "messages", body),
    "gemini": lambda body: _described(gemini.described, "gemini", body),
    "converse": lambda body: _described(bedrock.described, "converse", body),
    "cohere": lambda body: _described(cohere.described, "cohere", body),
}
"""Each raises InvalidField for what it refuses."""


def _described(front: Described, name: str, body: Document) -> DocumentCall:
    made = front(ROUTES[name], body)
    assert made is not None
    return read_call(made, CATALOG, 0, ANYONE)[1]


@dataclass(frozen=True)
class ProviderApi:
    """What an endpoint of the kind is sent. `problem`: why an API of the kind, written from its
    schema, refuses that; empty: it takes it."""

    kind: str
    front: str  # of the same API, whose calls go on as they are; empty: there is none
    sent: Callable[[DocumentCall], Document]
    problem: Callable[[Document], str] = lambda sent: ""
    omits: frozenset[str] = frozenset()  # fields of callers that change no answer


def _chat(call: DocumentCall) -> Document:
    return call.document if call.translation is None else spoken(call.document)[0]


def _message(call: DocumentCall) -> Document:
    return messages(call.document, SERVED, call.streamed, json.loads)


def _contents(call: DocumentCall) -> Document:
    return contents(call.document, SERVED, json.loads)


def _converse(call: DocumentCall) -> Document:
    return converse(call.document, SERVED.model, json.loads)


def _cohere(call: DocumentCall) -> Document:
    return cohere_chats(call.document, SERVED, call.streamed)


def _prompt(call: DocumentCall) -> Document:
    prompt = ask(CHAT, call.document)
    return {"prompts": prompt.prompts, "sampling": repr(prompt.sampling)}


_WHO = frozenset({"user", "metadata"})
PROVIDERS: dict[str, ProviderApi] = {
    "openai": ProviderApi("openai", "chat", _chat, chat_api.problem),
    "anthropic": ProviderApi("anthropic", "messages", _message, anthropic_api.problem),
    "gemini": ProviderApi("gemini", "gemini", _contents, gemini_api.problem, _WHO),
    "bedrock": ProviderApi("bedrock", "converse", _converse, bedrock_api.problem),
    "cohere": ProviderApi("cohere", "cohere", _cohere, cohere_api.problem, _WHO),
    "triton": ProviderApi("triton", "", _prompt, omits=frozenset(INCIDENTAL)),
}


def refusal(front: str, provider: str, body: Document) -> str | None:
    """The field for which a call does not go to the provider; None: it goes there."""
    try:
        call = FRONTS[front](body)
    except InvalidField as error:
        return error.param
    request = InferenceRequest("1", WireProtocol.OPENAI, "t", "m", call, Deadline.after(60.0))
    endpoint = Endpoint(provider, CLOUD, PROVIDERS[provider].kind, {"m": SERVED})
    need = lacking(request, endpoint, SERVED)
    return None if need is None else need.field
