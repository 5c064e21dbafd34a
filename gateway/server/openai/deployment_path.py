"""Paths of Azure OpenAI: a deployment is a model of the catalog.

`/openai/deployments/NAME/chat/completions?api-version=...`, and `/openai/v1` for what `/v1` is. The
version asks for nothing: the gateway has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.core.operations.spec import OperationSpec
from gateway.protocols.http.head import name_in

PREFIX: Final = "/openai"
_DEPLOYMENTS: Final = f"{PREFIX}/deployments/"


def azure_operation(
    route: str, operations: Mapping[str, OperationSpec]
) -> tuple[OperationSpec, str] | None:
    """The operation and the deployment of a path, `operations` being by theirs from /v1 on; the
    deployment is empty where the body names the model. None: it is another path."""
    if not route.startswith(PREFIX):
        return None
    operation = operations.get(route.removeprefix(PREFIX))
    if operation is not None:
        return operation, ""
    if not route.startswith(_DEPLOYMENTS):
        return None
    for path in sorted(operations, key=len, reverse=True):  # one may end as another does
        operation = operations[path]
        name = route.removeprefix(_DEPLOYMENTS).removesuffix(path.removeprefix("/v1"))
        if name and len(name) + len(path) - len("/v1") + len(_DEPLOYMENTS) == len(route):
            return operation, name_in(name)
    return None
