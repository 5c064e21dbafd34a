"""What was measured of each variant, by the hash of its file: `variants.json` beside the files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.models import versions

FILE = "variants.json"


def read_evidence(version: Path) -> dict[str, dict[str, Any]]:
    """File name -> what is known of it. What was measured of other bytes is not known of these."""
    try:
        held = json.loads((version / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(held, dict):
        return {}
    # guard: V2.evidence-digest minus 3
    return {
        name: known
        for name, known in held.items()
        if isinstance(known, dict)
        and (version / name).is_file()
        and known.get("sha256") == versions.sha256(version / name)
    }


def add(version: Path, measured: Mapping[str, Mapping[str, Any]]) -> None:
    held = read_evidence(version)
    for name, figures in measured.items():
        held[name] = {
            **held.get(name, {}),
            "sha256": versions.sha256(version / name),
            **figures,
        }
    with versions.staging(version) as made:
        (made / FILE).write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
        versions.place(made / FILE, version / FILE)
