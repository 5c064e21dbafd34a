"""A registry that is an MLflow server, by its REST interface alone.

Each version that is pushed here is a run of the experiment `spillway`, whose artifacts it is, and a
model version with our number in the tag `spillway.version`: MLflow counts its own. The artifacts go
through the server (`mlflow-artifacts:`), so that it needs no credentials of a store behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gateway.core import ambient
from gateway.models.registry import NotThere, RegistryError, Sent, UnfitVersion, VersionExists
from gateway.models.registry.kinds.web import Access, WebOrigin
from gateway.models.registry.kinds.website import ranged
from gateway.models.registry.manifest import pieces

TAG = "spillway.version"
_EXPERIMENT = "spillway"
_API = "/api/2.0/mlflow"
_ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts"
_SCHEME = "mlflow-artifacts:/"
_FOLDER = "version"  # of the run's artifacts
_MOST_PAGES = 1_000
_MOST_FOLDERS = 10_000


@dataclass(frozen=True, slots=True)
class _Version:
    number: int  # ours
    counted: str  # MLflow's own
    artifacts: str  # their path


class MlflowRegistry:
    def __init__(self, url: str, access: Access) -> None:
        self._site = WebOrigin(url, access)
        self._at: dict[tuple[str, int], str] = {}

    def close(self) -> None:
        self._site.close()

    def versions(self, model: str) -> list[int]:
        return sorted({version.number for version in self._versions(model)})

    def alias(self, model: str, alias: str) -> int:
        document = self._site.json("GET", f"{_API}/registered-models/get", params={"name": model})
        aliases = document.get("registered_model", {}).get("aliases", [])
        counted = {one.get("alias"): one.get("version") for one in aliases}.get(alias)
        for version in self._versions(model):
            if version.counted == counted:
                return version.number
        raise NotThere(f"{self._site.host} has no version of {model} of ours with alias {alias!r}")

    def listing(self, model: str, version: int) -> frozenset[str] | None:
        root = self._artifacts(model, version)
        names: set[str] = set()
        todo = [""]
        for _ in range(_MOST_FOLDERS):
            if not todo:
                return frozenset(names)
            folder = todo.pop()
            path = f"{root}/{folder}".rstrip("/")
            listed = self._site.json("GET", _ARTIFACTS, params={"path": path}).get("files", [])
            for one in listed:
                inside = f"{folder}/{one['path']}".lstrip("/")
                todo.append(inside) if one.get("is_dir") else names.add(inside)
        raise UnfitVersion(f"{self._site.host} lists artifacts without end")

    @contextmanager
    def read(self, model: str, version: int, path: str, start: int) -> Iterator[Iterator[bytes]]:
        at = f"{_ARTIFACTS}/{self._artifacts(model, version)}/{path}"
        with ranged(self._site, at, start) as pieces:
            yield pieces

    def write(
        self, model: str, version: int, parts: Mapping[str, Path | bytes], sent: Sent
    ) -> None:
        self._refuse_taken(model, version)
        self._ensure_model(model)
        started = {"experiment_id": self._experiment(), "start_time": _now_ms()}
        run = self._post("runs/create", run_name=f"{model} {version}", **started)["run"]["info"]
        uri = f"{run['artifact_uri']}/{_FOLDER}"
        for path, content in parts.items():
            self._put(f"{_ARTIFACTS}/{_artifact_path(uri, self._site.host)}/{path}", content, sent)
        self._post("runs/update", run_id=run["run_id"], status="FINISHED", end_time=_now_ms())
        self._refuse_taken(model, version)
        tags = [{"key": TAG, "value": str(version)}]
        made = self._post(
            "model-versions/create", name=model, source=uri, run_id=run["run_id"], tags=tags
        )
        self._keep_first(model, version, made["model_version"]["version"])

    def _keep_first(self, model: str, version: int, counted: str) -> None:
        """MLflow has no condition to create by: of two pushes at once the later one takes back."""
        same = [v for v in self._versions(model) if v.number == version]
        if any(int(v.counted) < int(counted) for v in same):
            gone = {"name": model, "version": counted}
            self._site.small("DELETE", f"{_API}/model-versions/delete", 1 << 20, json=gone)
            raise VersionExists(
                f"{self._site.host} got version {version} of {model} from somebody else"
            )

    def _refuse_taken(self, model: str, version: int) -> None:
        if version in self.versions(model):
            raise VersionExists(f"{self._site.host} has version {version} of {model} already")

    def _ensure_model(self, model: str) -> None:
        try:
            self._site.json("GET", f"{_API}/registered-models/get", params={"name": model})
        except NotThere:
            self._post("registered-models/create", name=model)

    def _experiment(self) -> str:
        try:
            params = {"experiment_name": _EXPERIMENT}
            document = self._site.json("GET", f"{_API}/experiments/get-by-name", params=params)
            return str(document["experiment"]["experiment_id"])
        except NotThere:
            return str(self._post("experiments/create", name=_EXPERIMENT)["experiment_id"])

    def _post(self, route: str, **document: Any) -> dict[str, Any]:
        return self._site.json("POST", f"{_API}/{route}", json=document)

    def _put(self, at: str, content: Path | bytes, sent: Sent) -> None:
        self._site.small("PUT", at, 1 << 20, content=partial(pieces, content))
        sent(len(content) if isinstance(content, bytes) else content.stat().st_size)

    def _artifacts(self, model: str, version: int) -> str:
        if (model, version) not in self._at:
            artifacts = [v.artifacts for v in self._versions(model) if v.number == version]
            if not artifacts:
                raise NotThere(f"{self._site.host} has no version {version} of {model} of ours")
            self._at[model, version] = artifacts[0]
        return self._at[model, version]

    def _versions(self, model: str) -> list[_Version]:
        """Those with our tag, as MLflow counted them."""
        versions: list[_Version] = []
        params = {"filter": f"name='{model}'", "max_results": "200"}
        for _ in range(_MOST_PAGES):
            page = self._site.json("GET", f"{_API}/model-versions/search", params=params)
            versions += [v for one in page.get("model_versions", []) if (v := self._ours(one))]
            if not page.get("next_page_token"):
                return sorted(versions, key=lambda version: int(version.counted))
            params["page_token"] = page["next_page_token"]
        raise UnfitVersion(f"{self._site.host} lists versions without end")

    def _ours(self, one: Mapping[str, Any]) -> _Version | None:
        tags = {tag.get("key"): tag.get("value") for tag in one.get("tags", [])}
        number = str(tags.get(TAG, ""))
        if not (number.isascii() and number.isdigit()) or not str(one.get("version")).isdigit():
            return None
        return _Version(
            int(number),
            str(one["version"]),
            _artifact_path(str(one.get("source")), self._site.host),
        )


def _artifact_path(uri: str, host: str) -> str:
    if not uri.startswith(_SCHEME):
        raise RegistryError(
            f"{host} keeps its artifacts elsewhere ({uri.partition(':')[0]}:); start it with "
            "--serve-artifacts, or name that store as the registry"
        )
    return uri.removeprefix(_SCHEME).strip("/")


def _now_ms() -> int:
    return int(ambient.wall_s() * 1000)
