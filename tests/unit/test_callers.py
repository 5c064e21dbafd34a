"""M5, B6: who calls is told by the credential alone, and a key's floor is part of it."""

from __future__ import annotations

import gc
import hmac
from collections.abc import Sequence
from dataclasses import replace
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, cast

import pytest
from pydantic import SecretStr

from gateway import config
from gateway.auth import ANYONE, Caller, Callers
from gateway.config import KeySettings, LimitSettings, TenantSettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.config.sections.callers import Spill
from gateway.config.zones import Zones
from gateway.core.errors import RequestRejected, Unauthenticated
from gateway.core.reply import InferenceReply
from gateway.core.types import (
    EVERYWHERE,
    NOT_TIGHTENED,
    ONPREM_ONLY,
    InferenceRequest,
    Parameter,
    TensorCall,
    Tightening,
    WireProtocol,
    Zone,
)
from gateway.server import Services, intake


def key(secret: str, tenant: str = "t", **changes: Any) -> KeySettings:
    return KeySettings.model_validate({"key": SecretStr(secret), "tenant": tenant, **changes})


def two() -> Callers:
    return Callers({"a": key("first-key", "one"), "b": key("second-key", "two")})


@pytest.mark.parametrize(
    ("header", "tenant"),
    [("Bearer first-key", "one"), ("bearer second-key", "two"), ("BEARER  first-key ", "one")],
)
def test_a_known_key_names_its_tenant(header: str, tenant: str) -> None:
    assert two().identify(header).tenant == tenant


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer   ",
        "first-key",
        "Basic first-key",
        "Bearer first-ke",
        "Bearer first-key2",
        "Bearer FIRST-KEY",
        "Bearer first-key second-key",
        "Bearer \udcff",
        "Bearer \x00",
    ],
)
def test_whoever_has_no_known_key_is_refused(header: str) -> None:
    with pytest.raises(Unauthenticated) as caught:
        two().identify(header)
    assert caught.value.http_status == 401
    assert "key" in caught.value.message
    assert "first" not in caught.value.message


def test_an_empty_key_lets_nobody_in() -> None:
    """A variable that is set to nothing must not become a key that everybody knows."""
    with pytest.raises(Unauthenticated):
        Callers({"a": key("")}).identify("Bearer  ")


def test_without_keys_everybody_is_the_anonymous_tenant() -> None:
    assert Callers({}).identify("Bearer whatever") is ANYONE


def test_the_line_end_of_a_key_file_is_not_part_of_the_key() -> None:
    assert Callers({"a": key("first-key\n")}).identify("Bearer first-key").tenant == "t"


@pytest.mark.parametrize(
    ("placement", "spill", "zones"),
    [
        ("any", Spill.ALLOW, EVERYWHERE),
        ("onprem", Spill.ALLOW, ONPREM_ONLY),
        ("any", Spill.NEVER, ONPREM_ONLY),
        ("onprem", Spill.NEVER, ONPREM_ONLY),
    ],
)
def test_the_floor_of_a_key_is_the_tightest_of_what_it_says(
    placement: str, spill: Spill, zones: frozenset[Zone]
) -> None:
    found = Callers({"a": key("k1", placement=placement, spill=spill)}).identify("Bearer k1")
    assert found.zones == zones


def test_a_key_allows_its_models_and_a_key_without_models_all() -> None:
    some = Callers({"a": key("k1", models=("chat",))}).identify("Bearer k1")
    assert some.may_use("chat")
    assert not some.may_use("Chat")
    none = Callers({"a": key("k1", models=())}).identify("Bearer k1")
    assert not none.may_use("chat")
    assert Callers({"a": key("k1")}).identify("Bearer k1").may_use("chat")


def test_the_budget_of_a_key_is_in_seconds() -> None:
    found = Callers({"a": key("k1", latency_budget_ms=250)}).identify("Bearer k1")
    assert found.latency_budget_s == 0.25


def test_keys_are_kept_as_digests_only() -> None:
    kept = two()
    found = held(kept)
    assert {"one", "two"} <= set(found)
    assert "first-key" not in repr(found)
    assert "second-key" not in repr(found)


def held(root: object) -> list[str | bytes]:
    """All text that can be reached from there."""
    seen: dict[int, object] = {}
    todo = [root]
    while todo:
        found = todo.pop()
        if id(found) not in seen and not isinstance(found, _SHARED):
            seen[id(found)] = found
            todo += gc.get_referents(found)
    return [found for found in seen.values() if isinstance(found, str | bytes)]


_SHARED = type, ModuleType, FunctionType, BuiltinFunctionType


class CountedCompare:
    """Compares like hmac does, and counts."""

    def __init__(self) -> None:
        self.pairs: list[tuple[int, int]] = []

    def __call__(self, known: bytes, given: bytes) -> bool:
        self.pairs.append((len(known), len(given)))
        return hmac.compare_digest(known, given)


@pytest.mark.parametrize("header", ["Bearer first-key", "Bearer second-key", "Bearer x"])
def test_one_whole_comparison_is_made_whichever_key_matches(header: str) -> None:
    """Constant time: as many comparisons, of as many bytes, for every answer and any number of
    keys."""
    compare = CountedCompare()
    known = Callers({"a": key("first-key"), "b": key("second-key")}, compare)
    try:
        known.identify(header)
    except Unauthenticated:
        assert header == "Bearer x"
    assert compare.pairs == [(32, 32)]


def test_the_comparison_is_the_one_that_takes_the_same_time() -> None:
    assert Callers({})._configured._same is hmac.compare_digest


def test_a_key_and_its_tenant_add_to_what_restricts_and_the_tightest_counts() -> None:
    known = Callers(
        {
            "a": key("k1", "one", restrict=("URL",), threshold=0.3),
            "b": key("k2", "one", profile="strict"),
            "c": key("k3", "two"),
        },
        tenants={"one": TenantSettings(profile="balanced", restrict=("DATE_TIME",), threshold=0.2)},
    )
    added = [known.identify(f"Bearer k{n}").tightening for n in (1, 2, 3)]
    assert added[0] == Tightening("balanced", frozenset({"URL", "DATE_TIME"}), 0.2)
    assert added[1] == Tightening("strict", frozenset({"DATE_TIME"}), 0.2)
    assert added[2] == NOT_TIGHTENED
    assert known.tightenings() == frozenset(added)


def test_a_tenant_can_keep_all_its_keys_on_the_premises() -> None:
    known = Callers(
        {"a": key("k1", "one"), "b": key("k2", "two")},
        tenants={"one": TenantSettings(placement="onprem")},
    )
    assert known.identify("Bearer k1").zones == ONPREM_ONLY
    assert known.identify("Bearer k2").zones == EVERYWHERE


# With the headers of a call: they tighten and never loosen


def built(
    floor: dict[str, Any], said: dict[str, str], call: TensorCall | None = None
) -> InferenceRequest:
    known = Callers({"a": key("k1", **floor)})
    settings = config.parse(
        "endpoints: {gpu: {kind: triton, zone: onprem, grpc: 'gpu:1'}}\n"
        "models: {m: {served_by: [{endpoint: gpu}]}}\n"
    )
    services = Services(
        handle=_never, callers=known, catalog=Catalog.from_settings(settings),
        inspection=cast(Any, None),
        limits=settings.limits, new_id=lambda: "id", clock=lambda: 0.0,
    )  # fmt: skip
    arrival = intake.arrive(said, services)
    caller = intake.identify({"authorization": "Bearer k1"}, services)
    return intake.build(
        services,
        arrival,
        caller,
        said,
        WireProtocol.KSERVE_REST,
        services.catalog.find("m"),
        call or TensorCall(()),
    )


@pytest.mark.parametrize(
    ("floor_ms", "said", "timeout_us", "seconds"),
    [
        (None, {}, None, 60.0),
        (250, {}, None, 0.25),
        (250, {"x-latency-budget-ms": "100"}, None, 0.1),
        (100, {"x-latency-budget-ms": "250"}, None, 0.1),
        (None, {"x-stainless-read-timeout": "0.5"}, None, 0.5),
        (None, {"x-stainless-read-timeout": "600"}, None, 60.0),
        (None, {"x-stainless-read-timeout": "nonsense"}, None, 60.0),
        (100, {"x-stainless-read-timeout": "0.5", "x-latency-budget-ms": "250"}, 50_000, 0.05),
        (None, {}, 50_000, 0.05),
        (20, {}, 50_000, 0.02),
    ],
)
def test_the_tightest_of_all_budgets_counts(
    floor_ms: int | None, said: dict[str, str], timeout_us: int | None, seconds: float
) -> None:
    floor = {} if floor_ms is None else {"latency_budget_ms": floor_ms}
    given: dict[str, Parameter] = {} if timeout_us is None else {"timeout": timeout_us}
    found = built(floor, said, TensorCall((), parameters=given))
    assert found.deadline.at_s == pytest.approx(seconds)


def zones_of(floor: dict[str, Any], **headers: str) -> frozenset[Zone]:
    return built(floor, {name.replace("_", "-"): value for name, value in headers.items()}).zones


async def _never(request: InferenceRequest) -> InferenceReply:
    raise AssertionError("nothing is sent here")


FLOORS: list[dict[str, Any]] = [
    {}, {"placement": "onprem"}, {"spill": Spill.NEVER},
    {"placement": "onprem", "spill": Spill.NEVER},
]  # fmt: skip


@pytest.mark.parametrize("floor", FLOORS)
@pytest.mark.parametrize("placement", ["onprem", "any", "cloud", "CLOUD", None])
@pytest.mark.parametrize("spill", ["never", "allow", None])
def test_headers_tighten_and_never_loosen(
    floor: dict[str, Any], placement: str | None, spill: str | None
) -> None:
    given = {"x_spillway_placement": placement, "x_spillway_spill": spill}
    zones = zones_of(floor, **{k: v for k, v in given.items() if v is not None})
    stays = bool(floor) or placement == "onprem" or spill == "never"
    assert zones == (ONPREM_ONLY if stays else EVERYWHERE)


@pytest.mark.parametrize(
    "headers",
    [
        {"x_spillway_placement": "anywhere"}, {"x_spillway_placement": ""},
        {"x_spillway_placement": "onprem, cloud"}, {"x_spillway_spill": "yes"},
        {"x_spillway_spill": "never,allow"},
    ],
)  # fmt: skip
def test_a_header_that_says_neither_is_refused_and_not_ignored(headers: dict[str, str]) -> None:
    with pytest.raises(RequestRejected):
        zones_of({}, **headers)


def test_a_call_takes_on_what_its_key_adds() -> None:
    assert built({"profile": "strict"}, {}).tightening == Tightening("strict")


LABEL, PARAMETER = "x-spillway-sensitivity", "spillway_sensitivity"


@pytest.mark.parametrize(
    ("headers", "parameters", "labelled"),
    [
        ({}, {}, False),
        ({LABEL: "restricted"}, {}, True),
        ({LABEL: "Restricted"}, {}, True),
        ({}, {PARAMETER: "restricted"}, True),
        ({LABEL: "restricted"}, {PARAMETER: "restricted"}, True),
    ],
)
def test_a_caller_may_say_that_its_call_is_restricted(
    headers: dict[str, str], parameters: dict[str, str], labelled: bool
) -> None:
    assert built({}, headers, TensorCall((), parameters=parameters)).labelled is labelled


@pytest.mark.parametrize("label", ["clear", "", "public", "restricted, clear", "none"])
def test_a_caller_cannot_say_anything_else_of_its_call(label: str) -> None:
    with pytest.raises(RequestRejected, match=f"{LABEL}: can only be restricted") as caught:
        built({}, {LABEL: label})
    assert caught.value.http_status == 400
    with pytest.raises(RequestRejected, match=f"parameter {PARAMETER}: can only be restricted"):
        built({}, {LABEL: "restricted"}, TensorCall((), parameters={PARAMETER: label}))


@pytest.mark.parametrize("label", [True, False, 0, 1.0])
def test_a_label_that_is_no_word_is_refused(label: Any) -> None:
    with pytest.raises(RequestRejected):
        built({}, {}, TensorCall((), parameters={PARAMETER: label}))


# Zones of the settings (S6), and classes that are said (M7)


def zoned(
    floor: dict[str, Any],
    headers: dict[str, str],
    tenant: TenantSettings | None = None,
    label: str | None = None,
    call: TensorCall | None = None,
    models: Sequence[CatalogModel] = (),
) -> InferenceRequest:
    known = Callers({"a": key("k1", **floor)}, tenants={"t": tenant} if tenant else {})
    models = models or (CatalogModel("m", "infer", (), label=label),)
    catalog = Catalog({model.name: model for model in models})
    services = Services(
        handle=_never, callers=known, catalog=catalog,
        inspection=cast(Any, None), limits=LimitSettings(), new_id=lambda: "id",
        clock=lambda: 0.0, zones=Zones(["eu", "us", "onprem-lab"]),
        classes=frozenset({"personal", "internal"}),
    )  # fmt: skip
    arrival = intake.arrive(headers, services)
    caller = intake.identify({"authorization": "Bearer k1"}, services)
    model = services.catalog.find("m")
    protocol = WireProtocol.KSERVE_REST
    return intake.build(services, arrival, caller, headers, protocol, model, call or TensorCall(()))


@pytest.mark.parametrize(
    ("floor", "tenant", "headers", "zones"),
    [
        ({}, None, {}, {"onprem", "onprem-lab", "cloud", "eu", "us"}),
        ({}, None, {"x-spillway-zones": "eu, OnPrem"}, {"eu", "onprem"}),
        ({}, None, {"x-spillway-zones": "eu"}, {"eu"}),
        ({}, None, {"x-spillway-placement": "onprem"}, {"onprem", "onprem-lab"}),
        ({}, None, {"x-spillway-spill": "never", "x-spillway-zones": "eu,onprem"}, {"onprem"}),
        ({"zones": ["eu", "onprem"]}, None, {}, {"eu", "onprem"}),
        ({"zones": ["eu", "onprem"]}, None, {"x-spillway-zones": "us,onprem"}, {"onprem"}),
        ({"zones": ["eu", "us"]}, TenantSettings(zones=("us", "onprem")), {}, {"us"}),
        ({"zones": ["eu"], "placement": "onprem"}, None, {}, set()),
        ({"spill": "never"}, None, {"x-spillway-zones": "eu,us"}, set()),
        ({}, TenantSettings(placement="onprem"), {}, {"onprem", "onprem-lab"}),
    ],
)
def test_callers_keys_and_tenants_narrow_the_zones(
    floor: dict[str, Any], tenant: TenantSettings | None, headers: dict[str, str], zones: set[str]
) -> None:
    assert {zone.name for zone in zoned(floor, headers, tenant).zones} == zones


@pytest.mark.parametrize("stated", ["", "moon", "eu,moon", "eu;onprem", "eu,", "any"])
def test_zones_that_nobody_knows_are_refused(stated: str) -> None:
    with pytest.raises(RequestRejected, match="x-spillway-zones: must be some of cloud, eu,") as no:
        zoned({}, {"x-spillway-zones": stated})
    assert no.value.http_status == 400


@pytest.mark.parametrize(
    ("floor", "tenant", "headers", "model", "labels"),
    [
        ({}, None, {}, None, set()),
        ({}, None, {LABEL: "Personal"}, None, {"personal"}),
        ({"label": "internal"}, None, {LABEL: "personal"}, None, {"personal", "internal"}),
        ({}, TenantSettings(label="internal"), {}, None, {"internal"}),
        ({}, None, {}, "personal", {"personal"}),
        ({"label": "restricted"}, None, {LABEL: "personal"}, None, {"personal"}),
    ],
)
def test_a_class_is_said_by_headers_keys_tenants_and_models(
    floor: dict[str, Any], tenant: TenantSettings | None, headers: dict[str, str],
    model: str | None, labels: set[str],
) -> None:  # fmt: skip
    made = zoned(floor, headers, tenant, model)
    assert made.labels == labels
    assert made.labelled is ("label" in floor and floor["label"] == "restricted")


def test_a_parameter_says_a_class_too() -> None:
    said = TensorCall((), parameters={PARAMETER: "personal"})
    assert zoned({"label": "internal"}, {}, call=said).labels == {"personal", "internal"}
    assert zoned({}, {}, call=TensorCall((), parameters={PARAMETER: "restricted"})).labelled


@pytest.mark.parametrize("label", ["clear", "public", "personal, internal"])
def test_a_class_that_nobody_knows_is_refused(label: str) -> None:
    with pytest.raises(RequestRejected, match="can only be restricted or internal or personal"):
        zoned({}, {LABEL: label})


def test_two_credentials_narrow_and_label_together() -> None:
    one = Caller("t", zone_names=frozenset({"eu", "us"}), labels=frozenset({"internal"}))
    other = Caller("t", zone_names=frozenset({"us"}), labels=frozenset({"personal"}))
    assert one.within(other).zone_names == frozenset({"us"})
    assert one.within(Caller("t")).zone_names == frozenset({"eu", "us"})
    assert one.within(other).labels == {"internal", "personal"}


def test_the_label_of_a_model_of_a_split_counts() -> None:
    chosen = CatalogModel("chosen", "infer", (), label="personal")
    model = CatalogModel("m", "infer", (), split={"chosen": 1.0}, label="internal")
    made = zoned({}, {}, models=(model, chosen))
    assert (made.model, made.labels) == ("chosen", frozenset({"personal", "internal"}))
    kept = zoned({}, {}, models=(model, replace(chosen, label="restricted")))
    assert (kept.labelled, kept.labels) == (True, frozenset({"internal"}))
