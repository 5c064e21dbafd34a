"""M5, O1: settings of callers and TLS that contradict themselves are refused, with their line."""

from __future__ import annotations

import pytest

from gateway import config
from gateway.auth.refusal import WHY
from gateway.config import ConfigError
from tests.unit.test_docs import first_codes, page, sections

BASE = """\
endpoints: {gpu: {kind: triton, zone: onprem, grpc: 'gpu:1'}}
models: {m: {served_by: [{endpoint: gpu}]}}
"""
KEY = "keys: {a: {key: '${SPW_TEST_KEY}', tenant: acme}}\n"
ISSUER = (
    "issuers: {corp: {issuer: 'https://i', audience: [a], jwks_url: 'https://i/k', "
    "algorithms: [RS256]}}\n"
)
TLS = "tls: {cert_file: c, key_file: k, client_ca_file: a}"
CERTIFICATE = "certificates: {a: {san: 'spiffe://a', tenant: acme}}\n"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPW_TEST_KEY", "secret")
    monkeypatch.setenv("SPW_ISSUED_KEY", "sk-spw-aaaa")


CREDENTIALS = [
    (KEY, "listen: {host: 0.0.0.0}\n"),
    ("key_store: keys.db\n", "listen: {host: 0.0.0.0}\n"),
    (ISSUER, "listen: {host: 0.0.0.0}\n"),
    (CERTIFICATE, f"listen: {{host: 0.0.0.0, {TLS}}}\n"),
]


@pytest.mark.parametrize(("credential", "listen"), CREDENTIALS)
def test_with_credentials_of_any_kind_any_address_may_be_listened_on(
    credential: str, listen: str
) -> None:
    assert not config.parse(BASE + credential + listen).anybody


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "gateway.example"])
@pytest.mark.parametrize("tls", ["", f", {TLS}"])
def test_without_credentials_only_the_loopback_is_listened_on(host: str, tls: str) -> None:
    """A certificate that names nobody is no credential."""
    listen = f"listen: {{host: '{host}'{tls}"
    with pytest.raises(ConfigError, match=r"listen\.host.*not loopback.*exposed"):
        config.parse(f"{BASE}{listen}}}\n")
    assert config.parse(f"{BASE}{listen}, exposed: true}}\n").anybody
    for loopback in ("127.0.0.1", "::1", "localhost"):
        assert config.parse(f"{BASE}listen: {{host: '{loopback}'}}\n").anybody


CONTRADICTIONS = {
    "certificates without an authority": (CERTIFICATE, "client_ca_file"),
    "certificates with TLS and no authority": (
        CERTIFICATE + "listen: {tls: {cert_file: c, key_file: k}}\n", "client_ca_file"),
    "two certificates of one name": (
        "certificates: {a: {san: x, tenant: t}, b: {san: x, tenant: u}}\n"
        f"listen: {{{TLS}}}\n", r"certificates\.b\.san.*certificates\.a"),
    "two of one issuer": (
        ISSUER.replace("}}\n", "}, two: {issuer: 'https://i', audience: [b], "
                       "jwks_url: 'https://i/k', algorithms: [ES256]}}\n"),
        r"issuers\.two\.issuer.*issuers\.corp"),
    "keys that do not last": (
        ISSUER.replace("[RS256]", "[RS256], refresh_s: 60, stale_s: 30"), "stale_s"),
    "an issuer that loosens": (
        ISSUER.replace("[RS256]", "[RS256], profile: patterns"), "can only tighten"),
    "a threshold that loosens": (
        ISSUER.replace("[RS256]", "[RS256], threshold: 0.9"), "can only tighten"),
    "a budget over the greatest": (
        ISSUER.replace("[RS256]", "[RS256], latency_budget_ms: 1.0e9"), "max_latency_budget_ms"),
    "a key of the form of issued ones": (
        "key_store: keys.db\nkeys: {a: {key: '${SPW_ISSUED_KEY}', tenant: acme}}\n",
        r"keys\.a\.key.*sk-spw-"),
    "a tenant of nobody": (KEY + "tenants: {globex: {}}\n", r"tenants\.globex"),
    "a priority that there is not": (
        "keys: {a: {key: '${SPW_TEST_KEY}', tenant: acme, most_urgent_priority: 10}}\n",
        "most_urgent_priority"),
    "masks for answers that nobody reads": (
        "keys: {a: {key: '${SPW_TEST_KEY}', tenant: acme, mask_answers: true}}\n",
        "keys.a.mask_answers: answers are not read; set classify.answers"),
    "a limit of nothing": (
        "keys: {a: {key: '${SPW_TEST_KEY}', tenant: acme, requests_per_minute: 0}}\n",
        "requests_per_minute"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_what_does_not_go_together_is_refused(name: str) -> None:
    text, said = CONTRADICTIONS[name]
    with pytest.raises(ConfigError, match=said) as caught:
        config.parse(BASE + text)
    assert "sk-spw-aaaa" not in str(caught.value)


def test_tenants_may_be_those_of_tokens_and_issued_keys() -> None:
    for credential in (ISSUER, "key_store: keys.db\n"):
        config.parse(f"{BASE}{credential}tenants: {{globex: {{placement: onprem}}}}\n")


def test_every_reason_of_a_refusal_is_documented() -> None:
    table = sections(page("reference/reasons.md"))["Refused credentials"]
    assert set(first_codes(table)) == WHY
