"""Which model of the catalog serves a call whose model gives a share of its calls to others.

Each conversation, or each tenant, has a fixed point between 0 and 1 on every gateway. The shares
lie there in their order and the model itself has the rest: it keeps its model for as long as the
shares stand, and a share that grows keeps what it had.
"""

from __future__ import annotations

import hashlib
from typing import Any

from gateway.auth import Caller
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.operations.responses import RESPONSES
from gateway.core.types import Payload, TensorCall
from gateway.protocols import strictjson


def serving_model(
    catalog: Catalog, model: CatalogModel, caller: Caller, payload: Payload, request_id: str
) -> CatalogModel:
    """`request_id`: of a call that belongs to no conversation."""
    key = caller.tenant
    if not model.sticky_by_tenant:
        key = f"{key}\0{_conversation(caller, payload) or request_id}"
    digest = hashlib.blake2b(f"{model.name}\0{key}".encode(), digest_size=8).digest()
    point, below = int.from_bytes(digest) / (1 << 64), 0.0
    for name, share in model.split.items():
        below += share
        if point < below:
            return catalog.find(name)
    return model


def _conversation(caller: Caller, payload: Payload) -> str:
    """What all calls of a conversation have in common: how it begins. Responses go on by ids, from
    which nobody knows the beginning: theirs are their caller's. Empty: it is none."""
    if isinstance(payload, TensorCall):
        return "" if payload.sequence is None else str(payload.sequence)
    if payload.operation is RESPONSES:
        return f"caller {caller.name}"
    messages = payload.document.get("messages")
    if not isinstance(messages, list):
        return ""
    return strictjson.dumps(_beginning(messages)).decode()


def _beginning(messages: list[Any]) -> list[Any]:
    """Up to the user's first message."""
    for at, message in enumerate(messages):
        if isinstance(message, dict) and message.get("role") == "user":
            return messages[: at + 1]
    return messages
