"""Where keys of AWS come from, which sign the calls to an endpoint."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping
from configparser import ConfigParser
from configparser import Error as NotIni
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree

import orjson

from gateway.config import EndpointSettings
from gateway.config.sections.credentials import AwsSettings
from gateway.core import ambient
from gateway.endpoints.credentials.exchange import exchange
from gateway.endpoints.credentials.renewal import NotIssued
from gateway.protocols.aws.sigv4 import AwsKeys, Signer

Tls = Callable[[], ssl.SSLContext]
_SESSION: Final = "spillway"
_STS_VERSION: Final = "2011-06-15"
_CODE: Final = re.compile("[A-Za-z]{1,64}")
_METADATA_LIFE_S: Final = "60"
_ROLES: Final = "/latest/meta-data/iam/security-credentials/"


class KeySource(Protocol):
    def read(self) -> object:
        """What of it can be read at once. Raises NotIssued, OSError."""
        ...

    async def keys(self) -> AwsKeys:
        """Raises NotIssued, OSError."""
        ...


@dataclass(frozen=True, slots=True)
class AwsSigner:
    """What an endpoint's credential is fetched from."""

    source: KeySource
    region: str
    service: str

    def read(self) -> object:
        return self.source.read()

    async def __call__(self) -> Signer:
        return Signer(await self.source.keys(), self.region, self.service)


def aws_signer(settings: EndpointSettings, stated: AwsSettings, tls: Tls) -> AwsSigner:
    region = settings.signing_region
    service = settings.provider.signing if settings.provider else ""
    source: KeySource
    sts = TokenService(stated.sts_url or _sts_url(region), region, tls)
    if stated.web_identity is not None:
        return AwsSigner(WebIdentity(stated.web_identity, stated.role, sts), region, service)
    if stated.access_key is not None and stated.secret_key is not None:
        token = stated.session_token
        source = StatedKeys(
            AwsKeys(
                stated.access_key.get_secret_value(),
                stated.secret_key.get_secret_value(),
                "" if token is None else token.get_secret_value(),
            )
        )
    elif stated.file is not None:
        source = SharedFile(stated.file, stated.profile)
    else:
        source = Metadata(stated.metadata_url or "", stated.metadata_token, tls)
    if stated.role:
        source = AssumedRole(source, stated.role, stated.external_id, sts)
    return AwsSigner(source, region, service)


def _sts_url(region: str) -> str:
    return f"https://sts.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"


@dataclass(frozen=True, slots=True)
class StatedKeys:
    """Those that stand in the settings."""

    stated: AwsKeys

    def read(self) -> object:
        return self.stated

    async def keys(self) -> AwsKeys:
        return self.stated


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A profile of the file that AWS's own tools write, for as long as it stands there."""

    path: Path
    profile: str

    def read(self) -> AwsKeys:
        parser = ConfigParser(interpolation=None)
        try:
            parser.read_string(self.path.read_text("utf-8", "replace"))
            section = parser[self.profile]
            return AwsKeys(
                section["aws_access_key_id"].strip(),
                section["aws_secret_access_key"].strip(),
                section.get("aws_session_token", "").strip(),
            )
        except (KeyError, NotIni):
            raise NotIssued(f"{self.path} has no keys of a profile {self.profile}") from None

    async def keys(self) -> AwsKeys:
        return await asyncio.to_thread(self.read)


@dataclass(frozen=True, slots=True)
class TokenService:
    """STS, which issues keys of a role for a while."""

    url: str
    region: str
    tls: Tls

    async def keys(self, action: str, fields: Mapping[str, str], caller: AwsKeys | None) -> AwsKeys:
        """`caller`: whose keys sign the request; None: it says itself who asks."""
        form = {"Action": action, "Version": _STS_VERSION, "RoleSessionName": _SESSION, **fields}
        headers = {"content-type": "application/x-www-form-urlencoded"}
        parts = urlsplit(self.url)
        if caller is not None:
            headers["host"] = parts.netloc
            signer = Signer(caller, self.region, "sts")
            canonical = signer.canonical("POST", parts.path or "/", (), headers)
            digest = sha256(urlencode(form).encode()).hexdigest()
            headers |= signer.headers(canonical, digest)
        status, body = await exchange(self.tls, "POST", self.url, headers=headers, form=form)
        fields = _texts(body)
        if status != 200:
            code = fields.get("Code", "")
            known = f": {code}" if _CODE.fullmatch(code) else ""
            raise NotIssued(f"{parts.hostname} answered {status}{known}")
        return _keys(fields, "SessionToken", parts.hostname)


@dataclass(frozen=True, slots=True)
class WebIdentity:
    """A role, for who has a token of an OpenID provider, as service accounts of Kubernetes have."""

    path: Path
    role: str
    sts: TokenService

    def read(self) -> str:
        return self.path.read_text("utf-8", "replace").strip()

    async def keys(self) -> AwsKeys:
        token = await asyncio.to_thread(self.read)
        fields = {"RoleArn": self.role, "WebIdentityToken": token}
        return await self.sts.keys("AssumeRoleWithWebIdentity", fields, None)


@dataclass(frozen=True, slots=True)
class AssumedRole:
    """A role, for who has keys already."""

    source: KeySource
    role: str
    external_id: str
    sts: TokenService

    def read(self) -> object:
        return self.source.read()

    async def keys(self) -> AwsKeys:
        fields = {"RoleArn": self.role}
        if self.external_id:
            fields["ExternalId"] = self.external_id
        return await self.sts.keys("AssumeRole", fields, await self.source.keys())


@dataclass(frozen=True, slots=True)
class Metadata:
    """The role of an instance (its metadata service, version 2), or of a container."""

    url: str
    token: Path | None
    tls: Tls

    def read(self) -> object:
        return self.token and self.token.read_text("utf-8", "replace").strip()

    async def keys(self) -> AwsKeys:
        host = urlsplit(self.url).hostname
        if urlsplit(self.url).path.strip("/"):
            token = await asyncio.to_thread(self.read)
            body = await self._got(self.url, {"authorization": str(token)} if token else {})
        else:
            life = {"x-aws-ec2-metadata-token-ttl-seconds": _METADATA_LIFE_S}
            url = self.url.rstrip("/")
            shown = await self._got(f"{url}/latest/api/token", life, "PUT")
            headers = {"x-aws-ec2-metadata-token": shown.decode("latin-1").strip()}
            roles = (await self._got(url + _ROLES, headers)).decode("latin-1").split()
            if not roles:
                raise NotIssued(f"{host} has no role for this instance")
            body = await self._got(f"{url}{_ROLES}{roles[0]}", headers)
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            document = None
        return _keys(document if isinstance(document, dict) else {}, "Token", host)

    async def _got(self, url: str, headers: Mapping[str, str], method: str = "GET") -> bytes:
        status, body = await exchange(self.tls, method, url, headers=headers)
        if status != 200:
            raise NotIssued(f"{urlsplit(url).hostname} answered {status}")
        return body


def _texts(body: bytes) -> dict[str, str]:
    """The texts of an XML document by the names of their elements; of one with a document type,
    which could grow without bound, none."""
    try:
        if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
            return {}
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError:
        return {}
    return {each.tag.rpartition("}")[2]: (each.text or "").strip() for each in root.iter()}


def _keys(fields: Mapping[str, Any], token_name: str, host: str | None) -> AwsKeys:
    key, secret, token = (
        fields.get(name) for name in ("AccessKeyId", "SecretAccessKey", token_name)
    )
    try:
        ends_s = datetime.fromisoformat(fields["Expiration"]).timestamp()
    except (KeyError, TypeError, ValueError):
        ends_s = 0.0
    if not (key and secret and token and ends_s):
        raise NotIssued(f"{host} answered with no keys")
    return AwsKeys(str(key), str(secret), str(token), ends_s - ambient.wall_s())
