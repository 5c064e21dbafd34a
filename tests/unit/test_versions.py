"""A caller who names a version of a model gets that one or none."""

from __future__ import annotations

import pytest

from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.deadline import Deadline
from gateway.core.errors import UnknownModel
from gateway.core.types import (
    Classification,
    Endpoint,
    EndpointSnapshot,
    InferenceRequest,
    Sensitivity,
    ServedModel,
    TensorCall,
    WireProtocol,
    Zone,
)
from gateway.scheduling.routing.policy import Policy


@pytest.mark.parametrize(
    ("pinned", "asked", "granted"),
    [
        ("", "", True),
        ("", "7", True),
        ("3", "", True),
        ("3", "3", True),
        ("3", "03", True),
        ("3", "4", False),
        ("3", "33", False),
    ],
)
def test_a_pinned_version_grants_itself_alone(pinned: str, asked: str, granted: bool) -> None:
    assert ServedModel("m", version=pinned).grants(asked) == granted


def state(name: str, version: str) -> EndpointSnapshot:
    served = ServedModel("m", version=version)
    return EndpointSnapshot(Endpoint(name, Zone.ONPREM, "triton", {"m": served}), served, True)


def call(version: str) -> InferenceRequest:
    return InferenceRequest(
        id="r",
        protocol=WireProtocol.KSERVE_REST,
        tenant="t",
        model="m",
        payload=TensorCall((), version=version),
        deadline=Deadline.after(10),
    )


@pytest.mark.parametrize(
    ("asked", "places"), [("", {"old", "new"}), ("1", {"old"}), ("2", {"new"})]
)
def test_a_call_goes_where_its_version_is(asked: str, places: set[str]) -> None:
    found = Classification("r", Sensitivity.CLEAR, "clear", complete=True)
    decision = Policy().decide(call(asked), found, (state("old", "1"), state("new", "2")))
    assert {endpoint.name for endpoint in decision.attempts} == places


def test_a_version_that_no_endpoint_may_serve_is_an_unknown_model() -> None:
    model = CatalogModel("m", "infer", ("old", "new"))
    places = {name: state(name, v).endpoint for name, v in (("old", "1"), ("new", "2"))}
    catalog = Catalog({"m": model}, places)
    for version in ("", "1", "2"):
        catalog.refuse_other_versions(model, version)
    with pytest.raises(UnknownModel, match="Request for unknown model"):
        catalog.refuse_other_versions(model, "3")
