"""What stays the same for a model is looked up once, and again when the catalog has changed."""

from __future__ import annotations

import pytest

from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.errors import UnknownModel
from gateway.core.types import Endpoint, ServedModel, Zone
from gateway.endpoints.candidates import CandidateIndex
from tests.unit.harness import MODEL, Rig, cloud, onprem, run


def _catalog() -> Catalog:
    return Catalog(
        {MODEL: CatalogModel(MODEL, "infer", ("gpu",), declared=False)},
        {
            "gpu": Endpoint("gpu", Zone.ONPREM, "triton", {MODEL: ServedModel(MODEL)}),
            "cloud": Endpoint("cloud", Zone.CLOUD, "openai", {}),
        },
    )


def test_the_ways_of_a_model_are_kept_until_the_catalog_changes() -> None:
    async def main() -> None:
        rig, catalog = Rig(onprem(), cloud()), _catalog()
        ways = CandidateIndex(catalog, rig.fleet.places, rig.fleet.lane)
        before = ways.for_model(MODEL)
        assert [way.name for way in before.all] == ["gpu"]
        assert ways.for_model(MODEL) is before
        catalog.add_undeclared("cloud", [MODEL])
        assert [way.name for way in ways.for_model(MODEL).all] == ["gpu", "cloud"]
        with pytest.raises(UnknownModel):
            ways.for_model("no such model")

    run(main())
