"""Tokens that end: where they come from, when they are renewed, and that calls carry them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc import jwt
from joserfc.jwk import RSAKey

from gateway.config import ConfigError, parse
from gateway.core import ambient
from gateway.core.errors import UpstreamFailed
from gateway.core.types import ServedModel
from gateway.endpoints.connectors import Connector
from gateway.endpoints.connectors.kinds import build_connector
from gateway.endpoints.credentials import AccessToken, NoCredential
from gateway.endpoints.credentials.issuers import TokenFile
from gateway.endpoints.credentials.renewal import NotIssued, RenewedCredential
from tests.unit.backends.test_openai_connector import Provider, head, request
from tests.unit.harness import run

OAUTH = (
    'provider: openai, url: "http://127.0.0.1:{port}", credential: '
    '{{token_url: "http://127.0.0.1:{port}/token", client_id: me, client_secret: "${{SECRET}}", '
    "scope: all}}"
)
ANSWER = b'{"choices":[{"finish_reason":"stop"}]}'


class Server(Provider):
    """Issues tokens at /token, and answers every other path by the token that it is shown."""

    issued: int = 0
    refuses: int = 0
    revoked: frozenset[str] = frozenset()
    answer: dict[str, Any] | None = None

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen = await self._request(reader)
        self.seen.append(seen)
        if seen.path == "/token":
            writer.write(self._issue())
        elif seen.headers.get("authorization", "") in self.revoked:
            writer.write(head(401, {"content-length": "0"}))
        else:
            writer.write(head(200, {"content-length": str(len(ANSWER))}) + ANSWER)
        await writer.drain()

    def _issue(self) -> bytes:
        if self.refuses:
            body = json.dumps({"error": "invalid_client", "error_description": "s3cret-1"}).encode()
            return head(self.refuses, {"content-length": str(len(body))}) + body
        self.issued += 1
        fields = {"access_token": f"token-{self.issued}", "token_type": "Bearer", "expires_in": 600}
        body = json.dumps(self.answer or fields).encode()
        return head(200, {"content-length": str(len(body))}) + body

    @property
    def shown(self) -> list[str]:
        return [s.headers.get("authorization", "") for s in self.seen if s.path != "/token"]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server(keeps=True)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    yield server
    listening.close()
    for writer in server.open:
        writer.close()


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3cret-1")


def connector(endpoint: str) -> Connector:
    text = f"endpoints:\n  there: {{zone: cloud, {endpoint}}}\n" + (
        "models:\n  m: {task: generate, served_by: [{endpoint: there, price_usd: 1}]}\n"
    )
    return build_connector(parse(text).endpoints["there"], None)


async def until_ready(there: Connector) -> None:
    """As the prober does it."""
    for _ in range(1000):
        if await there.ready():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it has no token")


@pytest.mark.anyio
async def test_a_call_carries_the_token_that_a_probe_had_issued(server: Server) -> None:
    there = connector(OAUTH.format(port=server.port))
    with pytest.raises(NoCredential):
        await there.open(request(), ServedModel("m"))
    assert not server.seen
    await until_ready(there)
    await there.open(request(), ServedModel("m"))
    await there.aclose()
    asked = next(seen for seen in server.seen if seen.path == "/token")
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    assert parse_qs(asked.body.decode()) == {
        "grant_type": ["client_credentials"], "client_id": ["me"],
        "client_secret": ["s3cret-1"], "scope": ["all"],
    }  # fmt: skip
    assert set(server.shown) == {"Bearer token-1"}


@pytest.mark.anyio
async def test_a_token_file_is_read_again(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    read = TokenFile(path)
    assert (await read()).text == "first"
    path.write_text("second")
    assert (await read()).text == "second"
    path.write_text(" \n")
    with pytest.raises(NotIssued, match="is empty"):
        await read()
    path.write_text("first")
    there = connector(
        f'provider: azure, url: "http://127.0.0.1:{server.port}", credential: {{file: {path}}}'
    )
    await until_ready(there)
    await there.open(request(), ServedModel("m"))
    await there.aclose()
    assert server.seen[-1].headers["api-key"] == "first"


@pytest.mark.anyio
async def test_a_service_account_signs_for_its_token(server: Server, tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    account, url = tmp_path / "key.json", f"http://127.0.0.1:{server.port}/token"
    account.write_text(
        json.dumps(
            {
                "type": "service_account", "private_key": pem, "private_key_id": "k1",
                "client_email": "a@b.iam.gserviceaccount.com", "token_uri": url,
            }
        )
    )  # fmt: skip
    there = connector(
        f'provider: vertex, url: "http://127.0.0.1:{server.port}/x", '
        f"credential: {{service_account: {account}}}"
    )
    await until_ready(there)
    await there.aclose()
    form = parse_qs(next(s for s in server.seen if s.path == "/token").body.decode())
    assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    public = RSAKey.import_key(key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ))  # fmt: skip
    token = jwt.decode(form["assertion"][0], public, algorithms=["RS256"])
    assert token.header == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
    assert token.claims["iss"] == "a@b.iam.gserviceaccount.com"
    assert token.claims["aud"] == url
    assert token.claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
    assert token.claims["exp"] - token.claims["iat"] == 3600
    assert abs(token.claims["iat"] - ambient.wall_s()) < 600
    assert server.shown == ["Bearer token-1"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "document",
    [
        {},
        {"access_token": 5},
        {"access_token": "a\nb"},
        {"access_token": "a", "token_type": "mac"},
    ],
)
async def test_what_is_no_token_is_not_used(server: Server, document: dict[str, Any]) -> None:
    server.answer = document or {"error": "x"}
    there = connector(OAUTH.format(port=server.port))
    assert not await there.ready()
    await asyncio.sleep(0.1)
    assert not await there.ready()
    await there.aclose()
    assert not server.shown


@pytest.mark.anyio
async def test_a_refusal_is_logged_by_its_code_alone(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuses = 401
    caplog.set_level(logging.WARNING)
    there = connector(OAUTH.format(port=server.port))
    while "invalid_client" not in caplog.text:
        assert not await there.ready()
        await asyncio.sleep(0.01)
    await there.aclose()
    assert "127.0.0.1 answered 401: invalid_client" in caplog.text
    assert "/token" not in caplog.text  # an address may hold a secret
    assert "s3cret" not in caplog.text


@pytest.mark.anyio
async def test_an_oauth_token_is_a_bearer_token_whatever_header_keys_have(server: Server) -> None:
    there = connector(OAUTH.format(port=server.port).replace("openai", "azure"))
    await until_ready(there)
    await there.aclose()
    assert server.shown == ["Bearer token-1"]


@pytest.mark.anyio
async def test_the_words_of_a_refusal_do_not_repeat_the_token(server: Server) -> None:
    there = connector(OAUTH.format(port=server.port))
    await until_ready(there)
    server.revoked = frozenset({"Bearer token-1"})
    with pytest.raises(UpstreamFailed) as caught:
        await there.open(request(), ServedModel("m"))
    assert caught.value.reason == "upstream_credentials"
    assert "token-1" not in str(caught.value)
    await there.aclose()


class Issuer:
    """Tokens of a life, on the clock of the test; none while `fails` is set."""

    def __init__(self, life_s: float | None) -> None:
        self.life_s, self.asked, self.fails = life_s, 0, False
        self.text: Callable[[int], str] = "token-{}".format

    async def __call__(self) -> AccessToken:
        self.asked += 1
        if self.fails:
            raise NotIssued("it fails")
        return AccessToken(self.text(self.asked), self.life_s)


async def probes(credential: RenewedCredential, seconds: float) -> None:
    for _ in range(round(seconds / 0.5)):
        credential.renew()
        await asyncio.sleep(0.5)


def token_of(credential: RenewedCredential) -> str:
    issued = credential.issued()
    assert isinstance(issued, AccessToken)
    return issued.text


@pytest.mark.leaping
def test_a_token_is_renewed_before_it_ends() -> None:
    async def scenario() -> None:
        issuer = Issuer(600.0)
        credential = RenewedCredential("there", issuer)
        await probes(credential, 1)
        assert token_of(credential) == "token-1"
        await probes(credential, 470)
        assert issuer.asked == 1
        await probes(credential, 20)
        assert (issuer.asked, token_of(credential)) == (2, "token-2")
        await credential.aclose()

    run(scenario())


@pytest.mark.leaping
def test_a_token_that_ended_is_not_shown() -> None:
    async def scenario() -> None:
        issuer = Issuer(600.0)
        credential = RenewedCredential("there", issuer)
        await probes(credential, 1)
        issuer.fails = True
        await probes(credential, 580)
        assert token_of(credential) == "token-1"
        assert credential.renew()
        await probes(credential, 20)
        assert not credential.renew()
        with pytest.raises(NoCredential):
            token_of(credential)
        assert issuer.asked < 30  # it is asked again, with pauses
        issuer.fails = False
        await probes(credential, 10)
        assert token_of(credential).startswith("token-")
        await credential.aclose()

    run(scenario())


@pytest.mark.leaping
def test_one_that_was_not_accepted_is_replaced_at_once_but_not_by_each_call() -> None:
    async def scenario() -> None:
        issuer = Issuer(3600.0)
        credential = RenewedCredential("there", issuer)
        await probes(credential, 10)
        version = credential.version
        for _ in range(100):
            credential.distrust()
        await probes(credential, 6)
        assert (issuer.asked, token_of(credential)) == (2, "token-2")
        assert credential.version != version
        await credential.aclose()

    run(scenario())


@pytest.mark.leaping
def test_the_same_token_is_the_same_version() -> None:
    async def scenario() -> None:
        issuer = Issuer(None)
        issuer.text = lambda _: "same"
        credential = RenewedCredential("there", issuer)
        await probes(credential, 60)
        assert issuer.asked > 5
        assert (credential.version, token_of(credential)) == (1, "same")
        await credential.aclose()

    run(scenario())


@pytest.mark.parametrize(
    ("credential", "message"),
    [
        ("{}", "needs exactly one of file, token_url, service_account"),
        ("{file: a, service_account: b}", "needs exactly one of"),
        ('{token_url: "http://a"}', "needs client_id and client_secret"),
        (
            '{token_url: "http://issuer.example", client_id: b, client_secret: "${SECRET}"}',
            "credential.token_url: client_secret would go there unencrypted; use https",
        ),
        ("{file: a, client_id: b}", "credential.client_id: goes with token_url alone"),
        ("{file: a, scope: b}", "credential.scope: a file's token has its own"),
        ('{token_url: "http://a", client_id: b, client_secret: plain}', "secrets stand in the env"),
    ],
)
def test_what_cannot_be_is_explained(credential: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        connector(f"provider: openai, credential: {credential}")
    assert message in str(caught.value)


def test_a_credential_stands_in_the_place_of_a_key() -> None:
    with pytest.raises(ConfigError, match="contradicts api_key; drop one of both"):
        connector('provider: openai, api_key: "${SECRET}", credential: {file: a}')
    with pytest.raises(ConfigError, match="an endpoint of kind kserve has api_key alone"):
        connector('kind: kserve, url: "http://a", credential: {file: a}')


def test_a_service_account_signs_for_no_address_without_tls(tmp_path: Path) -> None:
    key = RSAKey.generate_key(2048).as_pem(private=True).decode()
    account = tmp_path / "key.json"
    fields = {"private_key": key, "private_key_id": "k", "client_email": "a@b"}
    account.write_text(json.dumps({**fields, "token_uri": "http://issuer.example/token"}))
    with pytest.raises(ConfigError, match="its token_uri is neither https nor this machine"):
        connector(f"provider: openai, credential: {{service_account: {account}}}")


@pytest.mark.parametrize(
    ("key", "text"), [("file", None), ("file", " "), ("service_account", "{}")]
)
def test_a_file_that_cannot_be_used_is_explained_at_the_start(
    tmp_path: Path, key: str, text: str | None
) -> None:
    path = tmp_path / "credential"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        connector(f"provider: openai, credential: {{{key}: {path}}}")
    assert str(path) in str(caught.value)
