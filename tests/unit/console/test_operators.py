"""Who may look and who may act: a table, over every way in which a request can come."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway import config
from gateway.auth.issued import TRUSTED_S
from gateway.auth.key_form import key_digest, new_key
from gateway.auth.key_store import KeyRecord
from gateway.config import OperatorSettings
from gateway.core import ambient
from gateway.core.errors import Forbidden, GatewayError, Unauthenticated, Unverifiable
from gateway.server.console.operators import LOCAL, Operators
from tests.unit.callers.rig import Vault

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


# Issued keys


class Keys:
    """A key store, and operators of which one is known by an issued key."""

    def __init__(self, folder: Path) -> None:
        self.vault = Vault(folder)
        self.key = self.vault.create("operations")
        named = OperatorSettings(issued_key=self.key[7:19], may="operate")
        self.operators = Operators(
            {"wall": WALL, "alma": named}, True, self.vault.callers.issued_ids
        )
        self.vault.issued._operators = frozenset({self.key[7:19]})
        self.vault.issued.poll()

    def name(self, key: str) -> str:
        return self.operators.identify({"authorization": f"Bearer {key}"}, "10.0.0.9").name


def test_an_issued_key_that_is_named_is_an_operators_until_it_is_revoked(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    assert (keys.name(keys.key), keys.name("wall-key")) == ("alma", "wall")
    altered = keys.key[:-1] + ("1" if keys.key.endswith("0") else "0")
    for wrong in (keys.vault.create("acme"), altered, "sk-spw-", ""):
        keys.vault.issued.poll()
        with pytest.raises(Unauthenticated):
            keys.name(wrong)
    keys.vault.store.revoke(keys.key[7:19], keys.vault.times.wall_s)
    keys.vault.issued.poll()
    with pytest.raises(Unauthenticated):
        keys.name(keys.key)
    assert keys.vault.refusals == [], "it never was a caller's"


def test_a_store_that_cannot_be_read_lets_no_operator_in(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    keys.vault.times.pass_s(TRUSTED_S + 0.1)
    with pytest.raises(Unverifiable):
        keys.name(keys.key)
    assert keys.name("wall-key") == "wall"


def test_a_rotated_key_is_the_same_operators(tmp_path: Path) -> None:
    keys, now_s = Keys(tmp_path), 1_800_000_000.0
    new, new_id = new_key(ambient.random_bytes)
    old = keys.key[7:19]
    record = KeyRecord(new_id, key_digest(new), "operations", "", "{}", now_s, replaces=old)
    keys.vault.store.rotate(old, record, now_s)
    keys.vault.issued.poll()
    assert keys.name(new) == "alma"
    with pytest.raises(Unauthenticated):
        keys.name(keys.key)
    with pytest.raises(Unauthenticated):
        keys.vault.tenant_of(new)


def test_an_operators_key_makes_no_calls(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    with pytest.raises(Unauthenticated):
        keys.vault.tenant_of(keys.key)
    assert keys.vault.refusals == [("issued", "operator")]


GATEWAY = """
endpoints: {gpu: {kind: triton, zone: onprem, grpc: "localhost:8001"}}
models: {m: {served_by: [{endpoint: gpu}]}}
"""


@pytest.mark.parametrize(
    ("operators", "said"),
    [
        ("{a: {may: operate}}", "either a key or an issued_key"),
        ('{a: {key: "${HOME}", issued_key: hk3v5zqx2b7a}}', "either a key or an issued_key"),
        ("{a: {issued_key: sk-spw-hk3v5zqx2b7a}}", "issued_key"),
        ("{a: {issued_key: hk3v5zqx2b7a}, b: {issued_key: hk3v5zqx2b7a}}", "operators.a too"),
    ],
)
def test_an_operator_is_known_by_one_thing_alone(operators: str, said: str) -> None:
    text = f"{GATEWAY}key_store: keys.db\nconsole: {{operators: {operators}}}"
    with pytest.raises(config.ConfigError, match=said):
        config.parse(text, "spillway.yaml")


def test_an_issued_key_needs_a_store() -> None:
    text = f"{GATEWAY}console: {{operators: {{a: {{issued_key: hk3v5zqx2b7a}}}}}}"
    with pytest.raises(config.ConfigError, match="add a key_store"):
        config.parse(text, "spillway.yaml")
