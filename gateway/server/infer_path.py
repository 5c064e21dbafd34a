"""The path of an inference call of the Open Inference Protocol."""

from __future__ import annotations

from typing import Final

from gateway.protocols.http.head import name_in

_MODELS: Final = "/v2/models/"
_INFER: Final = "/infer"
_VERSIONS: Final = "/versions/"


def infer_path(route: str, suffix: str = _INFER) -> tuple[str, str] | None:
    """Model and version of `/v2/models/NAME[/versions/VERSION]/infer`, or of another suffix; the
    version is empty where none is asked for. A name may have slashes: where it could be read in two
    ways, escaped ones (`HttpHead.route`) belong to the name and others to the route. None: it is
    another path."""
    if not (route.startswith(_MODELS) and route.endswith(suffix)):
        return None
    model, version = route[len(_MODELS) : -len(suffix)], ""
    if _VERSIONS in model:
        before, _, behind = model.rpartition(_VERSIONS)
        if before and behind and "/" not in behind:
            model, version = before, behind
    return name_in(model), version
