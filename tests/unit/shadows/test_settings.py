"""`routing.shadows`: what may be said there, and what it makes of the live settings (O1)."""

from __future__ import annotations

import pytest

from gateway import config
from gateway.config import QueueSettings, RoutingSettings, ShadowSettings
from tests.unit.settings_text import GOOD, changed, refusal


def said(shadows: str) -> str:
    """A file that says this under `routing.shadows`, which is its line 12."""
    return changed("models:\n", f"routing:\n  margin: 1.5\n  shadows:\n{shadows}models:\n")


def test_a_shadow_says_what_it_does_otherwise() -> None:
    text = said("    dear: {miss_penalty_usd: 2.0, policy: queue_cap, aging_s: 3}\n    same: {}\n")
    settings = config.parse(text)
    dear, same = settings.routing.shadows.values()
    routing, queue = dear.over(settings.routing, settings.queue)
    assert (routing.miss_penalty_usd, routing.policy, routing.margin) == (2.0, "queue_cap", 1.5)
    assert (queue.aging_s, queue.max_waiting) == (3.0, settings.queue.max_waiting)
    assert same.over(settings.routing, settings.queue) == (settings.routing, settings.queue)


def test_null_is_as_live_but_for_the_lead_which_it_measures() -> None:
    queue = QueueSettings(lead_ms=5.0)
    its = ShadowSettings.model_validate({"lead_ms": None, "margin": None, "max_waiting": None})
    assert its.over(RoutingSettings(margin=2.0), queue) == (
        RoutingSettings(margin=2.0),
        QueueSettings(lead_ms=None),
    )
    assert ShadowSettings().over(RoutingSettings(), queue)[1] == queue


def test_every_key_of_a_shadow_is_a_live_one_with_the_same_bounds() -> None:
    live = {**RoutingSettings.model_fields, **QueueSettings.model_fields}
    for name, field in ShadowSettings.model_fields.items():
        assert name in live
        assert field.default is None
    for bad in ({"margin": 0.5}, {"max_waiting": 0}, {"aging_s": 0}, {"miss_penalty_usd": -1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            ShadowSettings.model_validate(bad)


@pytest.mark.parametrize(
    ("shadows", "line", "told"),
    [
        ("    x: {marign: 2}\n", 13, "routing.shadows.x.marign: unknown key; did you mean"),
        ("    x: {}\n    y:\n      margin: 0.5\n", 15, "routing.shadows.y.margin: "),
        ("    x: {policy: cheapest}\n", 13, "routing.shadows.x.policy: "),
        ("    x: {max_attempts: 1}\n", 13, "routing.shadows.x.max_attempts: unknown key"),
        ("    'a b': {}\n", 13, "routing.shadows.a b"),
        ("".join(f"    s{n}: {{}}\n" for n in range(5)), 12, "routing.shadows: there are 5, and"),
    ],
)
def test_nonsense_is_refused_with_its_line(shadows: str, line: int, told: str) -> None:
    assert refusal(said(shadows)).startswith(f"f.yaml:{line}: {told}")


def test_four_are_not_too_many() -> None:
    text = said("".join(f"    s{n}: {{}}\n" for n in range(4)))
    assert len(config.parse(text).routing.shadows) == 4


def test_none_is_what_there_is_by_default() -> None:
    assert config.parse(GOOD).routing.shadows == {}


@pytest.mark.parametrize("share", ["0", "1.5", "-1"])
def test_their_share_is_a_share(share: str) -> None:
    told = refusal(changed("models:\n", f"routing: {{shadow_share: {share}}}\nmodels:\n"))
    assert told.startswith("f.yaml:10: routing.shadow_share: ")


def test_with_a_cluster_there_are_none() -> None:
    """A shadow would see a part of the calls that its servers get, and find them idle."""
    cluster = (
        "cluster:\n  self: east\n  cert_file: c\n  key_file: k\n  ca_file: a\n"
        "  gateways:\n    east: {url: 'https://10.0.0.1:9', owns: [gpu]}\n"
        "    west: {url: 'https://10.0.0.2:9'}\n"
    )
    config.parse(changed("models:\n", f"{cluster}models:\n"))
    told = refusal(said("    x: {}\n").replace("models:\n", f"{cluster}models:\n"))
    assert told.startswith("f.yaml:12: routing.shadows: a shadow sees this gateway's calls alone")
