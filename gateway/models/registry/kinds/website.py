"""A registry that any web server shows: the directory form, read-only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gateway.models.registry import NotThere, RegistryError, Sent, UnfitVersion
from gateway.models.registry.kinds.directory import INDEX
from gateway.models.registry.kinds.web import Access, WebOrigin


class WebsiteRegistry:
    def __init__(self, url: str, access: Access) -> None:
        self._site = WebOrigin(url, access)

    def close(self) -> None:
        self._site.close()

    def versions(self, model: str) -> list[int]:
        try:
            versions = self._site.json("GET", f"/{model}/{INDEX}").get("versions")
        except NotThere:
            return []
        if not isinstance(versions, list) or not all(type(v) is int and v > 0 for v in versions):
            raise UnfitVersion(
                f"{self._site.host}: {model}/{INDEX} does not list versions; push again"
            )
        return sorted(set(versions))

    def alias(self, model: str, alias: str) -> int:
        raise NotThere("a web server has no aliases; name the version's number")

    def listing(self, model: str, version: int) -> frozenset[str] | None:
        return None

    @contextmanager
    def read(self, model: str, version: int, path: str, start: int) -> Iterator[Iterator[bytes]]:
        with ranged(self._site, f"/{model}/{version}/{path}", start) as pieces:
            yield pieces

    def write(
        self, model: str, version: int, parts: Mapping[str, Path | bytes], sent: Sent
    ) -> None:
        raise RegistryError(
            "a web server takes no versions; push to the directory that it shows, or to an object "
            "store or MLflow"
        )


@contextmanager
def ranged(site: WebOrigin, path: str, start: int) -> Iterator[Iterator[bytes]]:
    """From `start` on, also where the server does not know ranges."""
    headers = {"range": f"bytes={start}-"} if start else {}
    with site.answer("GET", path, headers=headers) as response:
        skip = start if start and response.status_code != 206 else 0
        yield _without(response.iter_raw(), skip)


def _without(pieces: Iterator[bytes], skip: int) -> Iterator[bytes]:
    for piece in pieces:
        if skip >= len(piece):
            skip -= len(piece)
            continue
        yield piece[skip:]
        skip = 0
