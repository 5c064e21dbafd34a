"""A registry in an object store that speaks S3: MinIO, Ceph, AWS and others.

Plain GET, PUT and LIST with the bucket in the path. The manifest is put last, and only where there
is none, so that of two pushes of one version one is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

import httpx

from gateway.models.registry import MANIFEST, NotThere, Sent, UnfitVersion, VersionExists
from gateway.models.registry.kinds.web import Access, WebOrigin
from gateway.models.registry.kinds.website import ranged
from gateway.models.registry.manifest import Content, pieces, read_content
from gateway.protocols.aws.sigv4 import EMPTY, Signer

CONTENT = "x-amz-content-sha256"
_MOST_XML = 8 << 20
_MOST_PAGES = 1_000  # of a thousand keys each


class ObjectStoreRegistry:
    def __init__(
        self, url: str, bucket: str, prefix: str, access: Access, signer: Signer | None
    ) -> None:
        self._site = WebOrigin(url, access, None if signer is None else partial(sign, signer))
        self._bucket = f"/{bucket}"
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""

    def close(self) -> None:
        self._site.close()

    def versions(self, model: str) -> list[int]:
        versions = []
        for key in self._keys(f"{self._prefix}{model}/"):
            number, _, path = key.partition("/")
            if path == MANIFEST and number.isascii() and number.isdigit():
                versions.append(int(number))
        return sorted(versions)

    def alias(self, model: str, alias: str) -> int:
        raise NotThere("an object store has no aliases; name the version's number")

    def listing(self, model: str, version: int) -> frozenset[str] | None:
        return frozenset(self._keys(f"{self._prefix}{model}/{version}/"))

    @contextmanager
    def read(self, model: str, version: int, path: str, start: int) -> Iterator[Iterator[bytes]]:
        with ranged(self._site, self._at(model, version, path), start) as pieces:
            yield pieces

    def write(
        self, model: str, version: int, parts: Mapping[str, Path | bytes], sent: Sent
    ) -> None:
        if version in self.versions(model):
            raise VersionExists(f"{self._site.host} has version {version} of {model} already")
        for path, content in parts.items():
            self._put(self._at(model, version, path), content, path == MANIFEST, sent)

    def _put(self, at: str, content: Path | bytes, alone: bool, sent: Sent) -> None:
        if isinstance(content, bytes):
            stored = Content(len(content), hashlib.sha256(content).hexdigest())
        else:
            stored = read_content(content)
        headers = {CONTENT: stored.sha256, "content-length": str(stored.size)}
        if alone:
            headers["if-none-match"] = "*"

        self._site.small("PUT", at, _MOST_XML, headers=headers, content=partial(pieces, content))
        sent(stored.size)

    def _at(self, model: str, version: int, path: str) -> str:
        return f"{self._bucket}/{self._prefix}{model}/{version}/{path}"

    def _keys(self, prefix: str) -> Iterator[str]:
        """Below the prefix, without it."""
        more: dict[str, str] = {}
        for _ in range(_MOST_PAGES):
            params = {"list-type": "2", "prefix": prefix, **more}
            page = _parsed(self._site.small("GET", self._bucket, _MOST_XML, params=params))
            for key in page.iterfind("Contents/Key"):
                yield (key.text or "").removeprefix(prefix)
            onward = page.findtext("NextContinuationToken")
            if page.findtext("IsTruncated") != "true" or not onward:
                return
            more = {"continuation-token": onward}
        raise UnfitVersion(f"{self._site.host} lists without end; check the registry's URL")


def sign(signer: Signer, request: httpx.Request) -> None:
    """Adds the headers that prove who asks; the body's hash is in `CONTENT` already, or it is
    empty. The path is encoded once, as in no other service."""
    request.headers.setdefault(CONTENT, EMPTY)
    query = [
        (quote(key, safe="-_.~"), quote(value, safe="-_.~"))
        for key, value in request.url.params.multi_items()
    ]
    path = quote(request.url.path, safe="/-_.~")
    canonical = signer.canonical(request.method, path, query, request.headers)
    request.headers.update(signer.headers(canonical, request.headers[CONTENT]))


def _parsed(raw: bytes) -> ElementTree.Element:
    """Without its namespaces; with no document type, which could grow without bound."""
    try:
        if b"<!DOCTYPE" in raw or b"<!ENTITY" in raw:
            raise ElementTree.ParseError
        root = ElementTree.fromstring(raw)
    except ElementTree.ParseError:
        raise UnfitVersion("the object store's answer is no list of keys; check the URL") from None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if root.tag != "ListBucketResult":
        raise UnfitVersion("the object store's answer is no list of keys; check the URL")
    return root
