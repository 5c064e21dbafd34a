"""Who may look and who may act: a table, over every way in which a request can come."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from gateway import config
from gateway.config import OperatorSettings
from gateway.console.operators import LOCAL, Operators
from gateway.errors import Forbidden, GatewayError, Unauthenticated

LOCALLY = {"host": "127.0.0.1:8080"}
FROM_PAGE = {"content-type": "application/json", "host": "gw:8080", "origin": "http://gw:8080",
             "sec-fetch-site": "same-origin"}  # fmt: skip
WALL = OperatorSettings(key=SecretStr("wall-key"), may="look")
CALL = OperatorSettings(key=SecretStr("oncall-key"), may="operate")


@pytest.mark.parametrize(
    ("headers", "peer", "let_in"),
    [
        (LOCALLY, "127.0.0.1", True),
        ({"host": "localhost"}, "127.0.0.1", True),
        ({"host": "[::1]:8080"}, "::1", True),
        ({"host": "[::1]"}, "::1", True),
        (LOCALLY, "10.0.0.9", False),
        (LOCALLY, None, False),
        ({"host": "attacker.example"}, "127.0.0.1", False),  # DNS rebinding
        ({"host": "attacker.example:8080"}, "127.0.0.1", False),
        ({"host": "127.0.0.1.attacker.example"}, "127.0.0.1", False),
        ({}, "127.0.0.1", False),
        ({**LOCALLY, "x-forwarded-for": "127.0.0.1"}, "127.0.0.1", False),
        ({**LOCALLY, "forwarded": "for=10.0.0.9"}, "127.0.0.1", False),
        ({**LOCALLY, "via": "1.1 proxy"}, "127.0.0.1", False),
    ],
)
def test_without_any_keys_the_page_is_for_whoever_sits_at_this_machine(
    headers: dict[str, str], peer: str | None, let_in: bool
) -> None:
    operators = Operators({}, keys_configured=False)
    if let_in:
        assert operators.identify(headers, peer) is LOCAL
    else:
        with pytest.raises(Forbidden):
            operators.identify(headers, peer)


def test_where_callers_have_keys_nobody_looks_until_an_operator_is_named() -> None:
    with pytest.raises(Forbidden, match=r"console\.operators"):
        Operators({}, keys_configured=True).identify(LOCALLY, "127.0.0.1")


@pytest.mark.parametrize(
    ("authorization", "name"),
    [
        ("Bearer wall-key", "wall"),
        ("bearer  oncall-key ", "oncall"),
        ("Bearer other", None),
        ("Bearer ", None),
        ("", None),
        ("Basic wall-key", None),
        ("wall-key", None),
    ],
)
@pytest.mark.parametrize("keys_configured", [True, False])
def test_an_operator_is_known_by_its_key_alone(
    authorization: str, name: str | None, keys_configured: bool
) -> None:
    operators = Operators({"wall": WALL, "oncall": CALL}, keys_configured)
    headers = {**LOCALLY, "authorization": authorization}
    if name is None:
        with pytest.raises(Unauthenticated):
            operators.identify(headers, "127.0.0.1")
    else:
        assert operators.identify(headers, "203.0.113.5").name == name


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({}, None),
        ({"origin": None, "sec-fetch-site": None}, None),  # curl
        ({"content-type": "application/json; charset=utf-8"}, None),
        ({"authorization": "Bearer wall-key"}, Forbidden),
        ({"authorization": "Bearer nobody"}, Unauthenticated),
        ({"content-type": "text/plain"}, Forbidden),  # what a form of another site can send
        ({"content-type": "application/x-www-form-urlencoded"}, Forbidden),
        ({"content-type": None}, Forbidden),
        ({"origin": "http://attacker.example"}, Forbidden),
        ({"origin": "null"}, Forbidden),
        ({"origin": "http://gw:8080.attacker.example"}, Forbidden),
        ({"sec-fetch-site": "cross-site"}, Forbidden),
        ({"sec-fetch-site": "same-site"}, Forbidden),
    ],
)
def test_to_act_takes_the_right_operator_and_the_page_itself(
    change: dict[str, str | None], refused: type[GatewayError] | None
) -> None:
    given = {**FROM_PAGE, "authorization": "Bearer oncall-key", **change}
    headers = {name: value for name, value in given.items() if value is not None}
    operators = Operators({"wall": WALL, "oncall": CALL}, keys_configured=True)
    if refused is None:
        assert operators.acting(headers, "203.0.113.5").name == "oncall"
    else:
        with pytest.raises(refused):
            operators.acting(headers, "203.0.113.5")


def test_in_development_mode_a_page_of_another_site_cannot_act_either() -> None:
    operators = Operators({}, keys_configured=False)
    headers = {**LOCALLY, "content-type": "application/json"}
    assert operators.acting(headers, "127.0.0.1") is LOCAL
    with pytest.raises(Forbidden):
        operators.acting({**headers, "origin": "http://attacker.example"}, "127.0.0.1")


def test_an_operators_key_that_is_a_callers_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONE_KEY", "the same")
    text = """
endpoints: {gpu: {kind: triton, zone: onprem, grpc: "localhost:8001"}}
models: {m: {served_by: [{endpoint: gpu}]}}
keys: {billing: {key: "${ONE_KEY}", tenant: billing}}
console: {operators: {wall: {key: "${ONE_KEY}"}}}
"""
    with pytest.raises(config.ConfigError, match=r"is the key of keys\.billing too"):
        config.parse(text, "spillway.yaml")
