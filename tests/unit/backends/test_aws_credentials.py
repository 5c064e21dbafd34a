"""Keys of AWS: where they come from, when they are renewed, and where they may go."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.config import ConfigError
from gateway.core.errors import UpstreamFailed
from gateway.core.types import ServedModel
from gateway.endpoints.connectors import Connector
from gateway.endpoints.credentials.aws import SharedFile
from gateway.protocols.aws.sigv4 import AwsKeys
from tests.bedrock_api import ACCESS_KEY, REGION, SECRET_KEY, AwsApi, aws_api
from tests.unit.backends.test_anthropic_connector import asked
from tests.unit.backends.test_credentials import connector, until_ready
from tests.unit.backends.test_openai_connector import Provider, head

pytestmark = pytest.mark.anyio
ROLE = "arn:aws:iam::123456789012:role/spillway"
SHARED = """[default]
aws_access_key_id = other
aws_secret_access_key = other
[clinic]
aws_access_key_id = {}
aws_secret_access_key = {}
"""


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsApi]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    with aws_api() as api:
        yield api


STATED = 'access_key: "${AWS_ACCESS_KEY_ID}", secret_key: "${AWS_SECRET_ACCESS_KEY}"'


def endpoint(api: AwsApi, aws: str) -> Connector:
    return connector(
        f'kind: bedrock, url: "{api.url}", credential: {{aws: {{region: {REGION}, {aws}}}}}'
    )


async def called(api: AwsApi, there: Connector) -> str:
    """The access key of a call that was let through."""
    await until_ready(there)
    await there.open(asked(), ServedModel("m.m"))
    credential: str = api.calls[-1].headers["authorization"].partition("Credential=")[2]
    return credential.partition("/")[0]


async def test_stated_keys_sign_calls(api: AwsApi) -> None:
    there = endpoint(api, STATED)
    assert await called(api, there) == ACCESS_KEY
    await there.aclose()


async def test_a_shared_file_is_read_again(api: AwsApi, tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_text(SHARED.format(ACCESS_KEY, SECRET_KEY))
    there = endpoint(api, f"file: {path}, profile: clinic")
    assert await called(api, there) == ACCESS_KEY
    await there.aclose()
    source = SharedFile(path, "clinic")
    assert await source.keys() == AwsKeys(ACCESS_KEY, SECRET_KEY)
    path.write_text(SHARED.format("AKIDSECOND", "s2") + "aws_session_token = t2\n")
    assert await source.keys() == AwsKeys("AKIDSECOND", "s2", "t2")


async def test_a_web_identity_stands_for_a_role(api: AwsApi, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{api.identity}\n")
    there = endpoint(api, f'web_identity: {path}, role: "{ROLE}", sts_url: "{api.url}"')
    assert (await called(api, there)).startswith("ASIA")
    await there.aclose()
    (form,) = api.issued
    assert (form["Action"], form["RoleArn"]) == ("AssumeRoleWithWebIdentity", ROLE)


async def test_a_role_is_assumed_by_a_signed_request(api: AwsApi) -> None:
    there = endpoint(api, f'{STATED}, role: "{ROLE}", external_id: x-1, sts_url: "{api.url}"')
    assert (await called(api, there)).startswith("ASIA")
    await there.aclose()
    (form,) = api.issued
    assert (form["Action"], form["ExternalId"]) == ("AssumeRole", "x-1")


async def test_what_sts_refuses_is_logged_by_its_code_alone(
    api: AwsApi, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "token"
    path.write_text("an-other-identity")
    caplog.set_level(logging.WARNING)
    there = endpoint(api, f'web_identity: {path}, role: "{ROLE}", sts_url: "{api.url}/"')
    while "InvalidIdentityToken" not in caplog.text:
        assert not await there.ready()
        await asyncio.sleep(0.01)
    await there.aclose()
    assert "127.0.0.1 answered 403: InvalidIdentityToken" in caplog.text
    assert "an-other-identity" not in caplog.text
    assert not api.calls


async def test_keys_that_end_at_once_are_not_used(api: AwsApi, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(api.identity)
    api.life_s = 5.0
    there = endpoint(api, f'web_identity: {path}, role: "{ROLE}", sts_url: "{api.url}"')
    while not api.issued:
        assert not await there.ready()
        await asyncio.sleep(0.01)
    assert not await there.ready()
    await there.aclose()


async def test_the_words_of_a_refusal_do_not_repeat_keys(api: AwsApi) -> None:
    there = endpoint(api, STATED)
    await until_ready(there)
    api.secrets = {}
    with pytest.raises(UpstreamFailed) as caught:
        await there.open(asked(), ServedModel("m.m"))
    assert caught.value.reason == "upstream_credentials"
    assert SECRET_KEY not in f"{caught.value} {there!r}"
    await there.aclose()


class MetadataServer(Provider):
    """The metadata of an instance with one role, and the credentials of a container."""

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen = await self._request(reader)
        self.seen.append(seen)
        keys = {
            "Code": "Success", "AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET_KEY,
            "Token": "t1", "Expiration": "2999-01-01T00:00:00Z",
        }  # fmt: skip
        path = "/latest/meta-data/iam/security-credentials/"
        shown = seen.headers.get("x-aws-ec2-metadata-token"), seen.headers.get("authorization")
        bodies = {
            ("PUT", "/latest/api/token", None, None): "session",
            ("GET", path, "session", None): "clinic\n",
            ("GET", f"{path}clinic", "session", None): json.dumps(keys),
            ("GET", "/v1/credentials", None, "pod-token"): json.dumps(keys),
        }
        body = bodies.get((seen.method, seen.path, *shown))
        status = 404 if body is None else 200
        answer = (body or "").encode()
        writer.write(head(status, {"content-length": str(len(answer))}) + answer)
        await writer.drain()


@pytest.fixture
async def metadata() -> AsyncIterator[str]:
    server = MetadataServer(keeps=True)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    listening.close()
    for writer in server.open:
        writer.close()


async def test_an_instance_and_a_container_have_keys_where_the_settings_say_so(
    api: AwsApi, metadata: str, tmp_path: Path
) -> None:
    api.secrets = {ACCESS_KEY: (SECRET_KEY, "t1")}
    (tmp_path / "pod").write_text("pod-token\n")
    container = f'metadata_url: "{metadata}/v1/credentials", metadata_token: {tmp_path / "pod"}'
    for aws in (f'metadata_url: "{metadata}"', container):
        there = endpoint(api, aws)
        assert await called(api, there) == ACCESS_KEY
        await there.aclose()


HOST = 'kind: bedrock, url: "https://bedrock-runtime.eu-central-1.amazonaws.com"'


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (HOST, "Amazon Bedrock needs credential.aws or api_key"),
        (f"{HOST}, credential: {{aws: {{}}}}", "needs exactly one of access_key, file"),
        (f"{HOST}, credential: {{aws: {{file: a, web_identity: b}}}}", "needs exactly one of"),
        (
            f'{HOST}, credential: {{aws: {{access_key: "${{AWS_ACCESS_KEY_ID}}"}}}}',
            "access_key and secret_key go together",
        ),
        (
            f"{HOST}, credential: {{aws: {{file: a, session_token: b}}}}",
            "secrets stand in the environment",
        ),
        (f"{HOST}, credential: {{aws: {{web_identity: a}}}}", "needs the role that it stands for"),
        (f"{HOST}, credential: {{aws: {{file: a, external_id: b}}}}", "goes with role alone"),
        (f"{HOST}, credential: {{aws: {{file: a, metadata_token: b}}}}", "goes with metadata_url"),
        (
            f'{HOST}, credential: {{aws: {{file: a, sts_url: "http://sts.example"}}}}',
            "secrets would go there unencrypted; use https",
        ),
        (
            f'{HOST}, credential: {{aws: {{metadata_url: "http://10.0.0.1"}}}}',
            "is neither https nor an address of this machine alone",
        ),
        (
            'kind: bedrock, url: "https://proxy.example", credential: {aws: {file: a}}',
            "needs region: the host of url does not say it",
        ),
        (
            'kind: bedrock, url: "http://proxy.example", '
            "credential: {aws: {file: a, region: eu-central-1}}",
            "calls signed by AWS keys go over https alone",
        ),
        (
            "provider: openai, credential: {aws: {file: a, region: eu-central-1}}",
            "its provider takes no AWS signatures",
        ),
        ('provider: sagemaker, credential: {aws: {file: a}}', "runtime.sagemaker.eu-central-1"),
    ],
    ids=range(14),
)  # fmt: skip
def test_what_cannot_be_is_explained(settings: str, message: str, api: AwsApi) -> None:
    with pytest.raises(ConfigError) as caught:
        connector(settings)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "host",
    [
        "bedrock-runtime.eu-central-1.amazonaws.com",
        "vpce-0a1b.bedrock-runtime.us-east-1.vpce.amazonaws.com",
        "bedrock-runtime-fips.us-gov-west-1.amazonaws.com",
        "runtime.sagemaker.cn-north-1.amazonaws.com.cn",
        "bedrock-runtime.ap-southeast-2.api.aws",
    ],
)
async def test_a_host_of_aws_says_its_region(host: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(SHARED)
    aws = f"{{aws: {{file: {tmp_path / 'keys'}, profile: clinic}}}}"
    await connector(f'kind: bedrock, url: "https://{host}", credential: {aws}').aclose()


def test_instance_metadata_is_link_local() -> None:
    for url in ("http://169.254.169.254", "http://[fd00:ec2::254]", "https://a.example/x"):
        connector(f'{HOST}, credential: {{aws: {{metadata_url: "{url}"}}}}')


@pytest.mark.parametrize("text", [None, "", "[clinic]\nx = 1\n", "no section"])
def test_a_shared_file_that_has_no_keys_is_explained_at_the_start(
    tmp_path: Path, text: str | None
) -> None:
    path = tmp_path / "credentials"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        connector(f"{HOST}, credential: {{aws: {{file: {path}, profile: clinic}}}}")
    assert str(path) in str(caught.value)


async def test_keys_that_cannot_stand_in_headers_are_not_used(
    api: AwsApi, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "credentials"
    path.write_text(SHARED.format("a key with spaces", SECRET_KEY))
    caplog.set_level(logging.WARNING)
    there = endpoint(api, f"file: {path}, profile: clinic")
    for _ in range(1000):
        if "not visible ASCII" in caplog.text:
            break
        assert not await there.ready()
        await asyncio.sleep(0.01)
    assert not await there.ready()
    await there.aclose()
    assert "with spaces" not in caplog.text
    assert not api.refused  # nothing was sent
