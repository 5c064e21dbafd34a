"""All kinds of credentials of one settings file, put together as a gateway does."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from gateway import config
from gateway.auth import Callers, building
from gateway.auth.key_form import key_digest, new_key
from gateway.auth.key_store import KeyRecord, KeyStore
from gateway.core import ambient
from gateway.core.errors import GatewayError, Unauthenticated
from gateway.core.types import Tightening
from tests.unit.callers.issuer import ISS, Issuer, claims, signed

pytestmark = pytest.mark.anyio

SETTINGS = """\
endpoints: {{gpu: {{kind: triton, zone: onprem, grpc: 'gpu:1'}}}}
models: {{m: {{served_by: [{{endpoint: gpu}}]}}}}
listen: {{tls: {{cert_file: c, key_file: k, client_ca_file: a}}}}
keys: {{a: {{key: '${{SPW_TEST_KEY}}', tenant: configured}}}}
key_store: {store}
issuers:
  corp: {{issuer: '{iss}', audience: [spillway], jwks_url: '{url}', algorithms: [RS256],
         profile: strict}}
certificates: {{c: {{san: 'spiffe://corp.example/c', tenant: certified, restrict: [URL]}}}}
tenants: {{acme: {{threshold: 0.2}}}}
"""


def tenant(callers: Callers, token: str) -> str:
    try:
        return callers.identify(f"Bearer {token}").tenant
    except GatewayError as error:
        return error.reason


async def test_every_kind_of_credential_is_known_in_one_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPW_TEST_KEY", "a-key-of-the-file")
    store = KeyStore(tmp_path / "keys.db")
    issued, key_id = new_key(ambient.random_bytes)
    store.add(KeyRecord(key_id, key_digest(issued), "issued", "", "{}", time.time()))
    issuer, refused = Issuer(), list[tuple[str, str]]()
    async with issuer.serving():
        text = SETTINGS.format(store=tmp_path / "keys.db", iss=ISS, url=issuer.url)
        callers = building.build(config.parse(text), lambda *told: refused.append(told))
        running = asyncio.create_task(callers.run())
        token = signed(claims(exp=time.time() + 60, iat=time.time()))
        async with asyncio.timeout(20):
            while tenant(callers, token) == "credential_unverifiable":  # noqa: ASYNC110 - a socket
                await asyncio.sleep(0.01)
        assert tenant(callers, token) == "acme"
        assert tenant(callers, "a-key-of-the-file") == "configured"
        assert tenant(callers, issued) == "issued"
        assert callers.identify("", ("spiffe://corp.example/c",)).tenant == "certified"
        refused.clear()
        for wrong in (token + "x", "another-key", issued[:-1] + "_"):
            with pytest.raises(Unauthenticated):
                callers.identify(f"Bearer {wrong}")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert [kind for kind, _ in refused] == ["token", "key", "issued"]
    assert callers.tightenings() >= {
        Tightening("strict"),
        Tightening("strict", frozenset(), 0.2),
        Tightening(None, frozenset({"URL"})),
    }
    store.close()
