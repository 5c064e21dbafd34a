"""M5, B6: callers by tokens of an OIDC issuer, whose keys come from a real socket."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import RSAKey

from gateway.auth import Callers
from gateway.auth.issued import Clocks
from gateway.auth.issuer_keys import MOST_BYTES
from gateway.auth.tokens import IssuerTokens
from gateway.config import IssuerSettings, TenantSettings
from gateway.core.errors import Unauthenticated, Unverifiable
from gateway.core.types import EVERYWHERE, ONPREM_ONLY, Tightening
from tests.unit.callers import issuer as issuers
from tests.unit.callers.issuer import EC, NOW_S, OTHER_RSA, RSA, Issuer, claims, signed
from tests.unit.pki import Authority

pytestmark = pytest.mark.anyio


class Gateway:
    """Callers by the tokens of one issuer."""

    def __init__(
        self, issuer: Issuer, floors: Mapping[str, TenantSettings] | None = None, **changes: Any
    ) -> None:
        self.now_s, self.wall_s = 1000.0, NOW_S
        settings = issuers.settings(jwks_url=issuer.url, **changes)
        clocks = Clocks(lambda: self.now_s, lambda: self.wall_s)
        self.tokens = IssuerTokens({"corp": settings}, floors or {}, clocks)
        self.refusals: list[str] = []
        self.callers = Callers(
            {}, tokens=self.tokens, on_refusal=lambda kind, why: self.refusals.append(why)
        )
        self.keys = self.tokens._by_issuer[issuers.ISS].keys

    def tenant(self, token: str) -> str:
        return self.callers.identify(f"Bearer {token}").tenant

    def refusal(self, token: str) -> str:
        """Why, as the operator learns it; the caller learns nothing."""
        with pytest.raises(Unauthenticated) as caught:
            self.tenant(token)
        assert "not accepted" in caught.value.message
        return self.refusals.pop()

    def waits(self, token: str) -> None:
        with pytest.raises(Unverifiable) as caught:
            self.tenant(token)
        assert caught.value.retry_after_s


async def test_the_tenant_is_the_one_that_the_token_names() -> None:
    issuer = Issuer()
    async with issuer.serving():
        gateway = Gateway(issuer)
        await gateway.keys.fetch()
    assert gateway.tenant(signed()) == "acme"
    assert gateway.tenant(signed(claims(tenant="globex"), EC, "ES256")) == "globex"
    assert issuer.fetches == 1


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another issuer": ({"iss": "https://evil.example"}, "issuer"),
    "an issuer with a slash more": ({"iss": issuers.ISS + "/"}, "issuer"),
    "no issuer": ({"iss": None}, "issuer"),
    "two issuers": ({"iss": [issuers.ISS]}, "issuer"),
    "another audience": ({"aud": "other"}, "audience"),
    "no audience": ({"aud": None}, "audience"),
    "an audience that is no text": ({"aud": [1, {"a": "spillway"}]}, "audience"),
    "expired": ({"exp": NOW_S - 30}, "expired"),
    "never expires": ({"exp": None}, "claims"),
    "expires in words": ({"exp": "tomorrow"}, "claims"),
    "expires at true": ({"exp": True}, "claims"),
    "not yet valid": ({"nbf": NOW_S + 31}, "not_yet_valid"),
    "from the future": ({"iat": NOW_S + 31}, "not_yet_valid"),
    "no tenant": ({"tenant": None}, "claims"),
    "a tenant that is no name": ({"tenant": "a b"}, "claims"),
    "a tenant with a line end": ({"tenant": "acme\n"}, "claims"),
    "a tenant that is a list": ({"tenant": ["acme"]}, "claims"),
    "an empty tenant": ({"tenant": ""}, "claims"),
}


@pytest.fixture
async def gateway() -> Gateway:
    issuer = Issuer()
    async with issuer.serving():
        found = Gateway(issuer)
        await found.keys.fetch()
    return found


@pytest.mark.parametrize("name", WRONG)
async def test_a_token_whose_claims_are_wrong_is_refused(name: str, gateway: Gateway) -> None:
    changes, why = WRONG[name]
    assert gateway.refusal(signed(claims(**changes))) == why


RIGHT: dict[str, dict[str, Any]] = {
    "one of several audiences": {"aud": ["other", "spillway"]},
    "expired within the leeway": {"exp": NOW_S - 29},
    "valid within the leeway": {"nbf": NOW_S + 30, "iat": NOW_S + 29.5},
    "without a time of issue": {"iat": None},
    "with claims that nobody knows": {"tid": {"a": [1, None]}},
}


@pytest.mark.parametrize("name", RIGHT)
async def test_a_token_that_is_in_order_is_accepted(name: str, gateway: Gateway) -> None:
    assert gateway.tenant(signed(claims(**RIGHT[name]))) == "acme"


async def test_a_token_that_was_verified_is_refused_once_it_expires(gateway: Gateway) -> None:
    token = signed(claims(exp=NOW_S + 10))
    assert gateway.tenant(token) == "acme"
    gateway.wall_s += 39.9
    assert gateway.tenant(token) == "acme"
    gateway.wall_s += 0.1
    assert gateway.refusal(token) == "expired"


async def test_a_key_that_its_issuer_took_back_is_refused_with_the_next_fetch() -> None:
    """Also in a token that was verified before."""
    issuer = Issuer(RSA, OTHER_RSA)
    async with issuer.serving():
        gateway = Gateway(issuer)
        await gateway.keys.fetch()
        token = signed(key=OTHER_RSA)
        assert gateway.tenant(token) == "acme"
        issuer.keys = [RSA]
        await gateway.keys.fetch()
    assert gateway.tenant(signed()) == "acme"
    gateway.now_s += 1.0
    assert gateway.refusal(token) == "no_key"


async def test_a_new_key_of_the_issuer_is_fetched_when_a_token_comes_with_it() -> None:
    """No call waits for it, and no number of such tokens causes more than one fetch."""
    issuer = Issuer(RSA)
    async with issuer.serving():
        gateway = Gateway(issuer, refetch_s=10)
        running = asyncio.create_task(gateway.callers.run())
        await until(lambda: issuer.fetches == 1 and len(gateway.keys._fetched.keys) == 1)
        issuer.keys = [RSA, OTHER_RSA]
        unknown = signed(key=RSAKey.generate_key(2048, {"kid": "nobodys"}))
        gateway.now_s += 10.0
        for _ in range(5):
            gateway.waits(signed(key=OTHER_RSA))
        await until(lambda: len(gateway.keys._fetched.keys) == 2)
        await asyncio.sleep(0)
        assert gateway.tenant(signed(key=OTHER_RSA)) == "acme"
        for _ in range(50):
            assert gateway.refusal(unknown) == "no_key"
            await asyncio.sleep(0)
        assert issuer.fetches == 2
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 - an answer from a socket, which tells nobody here
            await asyncio.sleep(0.005)


async def test_while_the_issuer_is_down_its_keys_count_for_so_long_and_no_longer() -> None:
    issuer = Issuer()
    async with issuer.serving():
        gateway = Gateway(issuer, stale_s=3600)
        await gateway.keys.fetch()
    token = signed(claims(exp=NOW_S + 1e6))
    for _ in range(3):
        gateway.now_s += 1200
        await gateway.keys.fetch()
        assert gateway.tenant(token) == "acme"
    gateway.now_s += 0.1
    gateway.waits(token)
    async with issuer.serving():
        await gateway.keys.fetch()
    assert gateway.tenant(token) == "acme"


async def test_before_its_keys_are_there_tokens_wait() -> None:
    issuer = Issuer()
    issuer.port = 1
    gateway = Gateway(issuer)
    gateway.waits(signed())


def redirects(issuer: Issuer) -> None:
    issuer.status = 302
    issuer.more_headers = f"location: http://127.0.0.1:{issuer.port}/other\r\n"


def fails(issuer: Issuer) -> None:
    issuer.status = 500


def is_no_json(issuer: Issuer) -> None:
    issuer.body = b"<html>"


def has_no_keys(issuer: Issuer) -> None:
    issuer.body = b'{"keys": []}'


def is_endless(issuer: Issuer) -> None:
    issuer.keys = [OTHER_RSA]
    issuer.body = issuer.jwks() + b" " * MOST_BYTES


def says_things_twice(issuer: Issuer) -> None:
    issuer.body = b'{"keys": [],' + issuer.jwks()[1:]


@pytest.mark.parametrize(
    "spoil", [redirects, fails, is_no_json, has_no_keys, is_endless, says_things_twice]
)
async def test_an_answer_that_is_no_set_of_keys_changes_nothing(
    spoil: Callable[[Issuer], None], caplog: pytest.LogCaptureFixture
) -> None:
    issuer = Issuer()
    async with issuer.serving():
        gateway = Gateway(issuer)
        await gateway.keys.fetch()
        spoil(issuer)
        for _ in range(2):
            await gateway.keys.fetch()
    assert gateway.tenant(signed()) == "acme"
    assert issuer.fetches == 3
    assert [r.levelname for r in caplog.records if r.name.startswith("gateway")] == ["ERROR"]


async def test_an_issuer_that_hangs_is_given_up() -> None:
    issuer = Issuer()
    async with issuer.serving():
        issuer.hangs = True
        gateway = Gateway(issuer)
        gateway.keys._fetch_s = 0.05
        await asyncio.wait_for(gateway.keys.fetch(), 60)
    gateway.waits(signed())


async def test_no_proxy_out_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    issuer = Issuer()
    async with issuer.serving():
        gateway = Gateway(issuer)
        await gateway.keys.fetch()
    assert gateway.tenant(signed()) == "acme"


async def test_the_issuer_must_be_vouched_for_by_the_authority_that_is_trusted_for_it(
    tmp_path: Path,
) -> None:
    """By that one alone, and in its name."""
    right, other = Authority(tmp_path, "right"), Authority(tmp_path, "other")
    for names, trusts, known in (
        (("127.0.0.1",), right, True),
        (("127.0.0.1",), other, False),
        (("127.0.0.1",), None, False),
        (("login.corp.example",), right, False),
    ):
        pair, issuer = right.issue(*names), Issuer()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert, pair.key)
        async with issuer.serving(context):
            gateway = Gateway(issuer, ca_file=None if trusts is None else trusts.file)
            await gateway.keys.fetch()
        if known:
            assert gateway.tenant(signed()) == "acme"
        else:
            gateway.waits(signed())


async def fetched(gateway: Gateway, issuer: Issuer) -> Gateway:
    async with issuer.serving():
        gateway.keys._settings = gateway.keys._settings.model_copy(update={"jwks_url": issuer.url})
        await gateway.keys.fetch()
    return gateway


async def test_an_issuer_may_be_kept_to_some_tenants() -> None:
    issuer = Issuer()
    gateway = await fetched(Gateway(issuer, tenants=["acme"]), issuer)
    assert gateway.tenant(signed()) == "acme"
    assert gateway.refusal(signed(claims(tenant="globex"))) == "claims"


async def test_the_tenant_may_stand_in_another_claim() -> None:
    issuer = Issuer()
    gateway = await fetched(Gateway(issuer, tenant_claim="azp"), issuer)
    assert gateway.tenant(signed(claims(azp="globex"))) == "globex"


@pytest.mark.parametrize(
    ("scope", "models"),
    [
        ("chat", {"m1", "m2"}),
        ("chat embed", {"m1", "m2", "m3"}),
        (["embed"], {"m3"}),
        ("other", set()),
        (None, set()),
        (7, set()),
        ("chatembed", set()),
    ],
)
async def test_scopes_grant_models(scope: Any, models: set[str]) -> None:
    issuer = Issuer()
    by_scope = {"chat": ["m1", "m2"], "embed": ["m3"]}
    gateway = await fetched(Gateway(issuer, models_by_scope=by_scope), issuer)
    found = gateway.callers.identify(f"Bearer {signed(claims(scope=scope))}")
    assert {m for m in ("m1", "m2", "m3", "m4") if found.may_use(m)} == models


async def test_the_floors_of_an_issuer_and_of_a_tenant_hold() -> None:
    issuer = Issuer()
    floors = {"globex": TenantSettings(placement="onprem", restrict=("URL",))}
    gateway = await fetched(
        Gateway(issuer, floors, profile="strict", most_urgent_priority=3, requests_per_minute=5),
        issuer,
    )
    acme = gateway.callers.identify(f"Bearer {signed()}")
    globex = gateway.callers.identify(f"Bearer {signed(claims(tenant='globex'))}")
    assert (acme.zones, globex.zones) == (EVERYWHERE, ONPREM_ONLY)
    assert acme.tightening == Tightening("strict")
    assert globex.tightening == Tightening("strict", frozenset({"URL"}))
    assert acme.most_urgent == 3
    assert not acme.pseudonymise
    assert [q.holder for q in acme.quotas] == ["key corp:acme"], "each tenant has its own"
    assert {acme.tightening, globex.tightening} <= gateway.callers.tightenings()


async def test_what_is_remembered_of_tokens_is_bounded(gateway: Gateway) -> None:
    gateway.tokens._most_remembered = 3
    for at in range(6):
        gateway.tenant(signed(claims(jti=str(at))))
    assert len(gateway.tokens._verified) == 3


async def test_tokens_of_two_issuers_do_not_vouch_for_each_other() -> None:
    one, two = Issuer(RSA), Issuer(OTHER_RSA)
    async with one.serving(), two.serving():
        settings = {
            "one": issuers.settings(jwks_url=one.url, tenants=["acme"]),
            "two": issuers.settings(
                jwks_url=two.url, issuer="https://two.example", algorithms=["RS512"]
            ),
        }
        tokens = IssuerTokens(settings, {}, Clocks(lambda: 0.0, lambda: NOW_S))
        for issuer in tokens._by_issuer.values():
            await issuer.keys.fetch()
    callers = Callers({}, tokens=tokens)
    of_two = claims(iss="https://two.example", tenant="globex")
    assert callers.identify(f"Bearer {signed(of_two, OTHER_RSA, 'RS512')}").tenant == "globex"
    for token in (
        signed(claims(tenant="globex"), OTHER_RSA),
        signed(of_two, RSA, "RS512"),
        signed(of_two, OTHER_RSA, "RS256"),
    ):
        with pytest.raises((Unauthenticated, Unverifiable)):
            callers.identify(f"Bearer {token}")


@pytest.mark.parametrize(
    "url",
    [
        "http://login.corp.example/keys",
        "ftp://login.corp.example/keys",
        "https://user:pass@login.corp.example/keys",
        "login.corp.example",
        "https:///keys",
    ],
)
def test_keys_are_fetched_over_tls_only(url: str) -> None:
    with pytest.raises(ValueError, match="https"):
        issuers.settings(jwks_url=url)


@pytest.mark.parametrize("algorithm", ["none", "HS256", "HS512", "RS1"])
def test_an_issuer_cannot_be_given_an_algorithm_without_a_public_key(algorithm: str) -> None:
    with pytest.raises(ValueError, match="algorithms"):
        issuers.settings(algorithms=[algorithm])


def test_an_issuer_needs_an_audience_and_an_algorithm() -> None:
    for name in ("audience", "algorithms"):
        with pytest.raises(ValueError, match=name):
            IssuerSettings.model_validate(
                {**issuers.settings().model_dump(exclude_defaults=True), name: []}
            )
