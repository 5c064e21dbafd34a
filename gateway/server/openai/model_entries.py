"""What callers see of a model: how the API lists it, and what it can do for them."""

from __future__ import annotations

from functools import partial

from gateway.auth import Caller
from gateway.config.endpoint_kinds import KINDS
from gateway.config.model_catalog import CatalogModel
from gateway.core.operations.capabilities import CAPABILITIES
from gateway.core.operations.registry import task_operations
from gateway.core.operations.spec import OperationSpec
from gateway.core.types import Endpoint, JsonDocument
from gateway.scheduling.routing.needs import serves, translated
from gateway.server import Services


def has_documents(model: CatalogModel) -> bool:
    """Whether the API serves the model, and not calls of tensors alone."""
    return any(spec.path for spec in task_operations(model.task))


def _serves(operation: OperationSpec, endpoint: Endpoint) -> bool:
    return serves(endpoint, operation) or translated(endpoint, operation) is not None


def model_entry(name: str, services: Services, caller: Caller) -> JsonDocument:
    """Of a name or an alias. `created` is required by the API and known to nobody here: the epoch
    says so. `name` and `ready` are those of KServe's first protocol. What it can do is what some
    endpoint can that this caller's calls may go to; which that is, nobody is told."""
    catalog = services.catalog
    model = catalog.find(caller.named(name))
    endpoints = [catalog.endpoints[each] for each in model.endpoints if each in catalog.endpoints]
    endpoints = [endpoint for endpoint in endpoints if endpoint.zone in caller.zones]
    operations = [
        spec.path
        for spec in task_operations(model.task)
        if spec.path and any(map(partial(_serves, spec), endpoints))
    ]
    if any(KINDS[endpoint.kind].tensors for endpoint in endpoints):
        operations.append("/v2/models/{name}/infer")
    capabilities: set[str] = set()
    for endpoint in endpoints if has_documents(model) else ():
        capabilities |= KINDS[endpoint.kind].capabilities - endpoint.models[model.name].lacks
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "spillway",
        "task": model.task,
        "operations": operations,
        "capabilities": [each for each in CAPABILITIES if each in capabilities],
        "name": name,
        "ready": services.inspection.model_ready(model.name),
    }
