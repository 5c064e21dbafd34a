"""The modules that lie beside a served model; models/ is a model repository and not a package."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from .serving import MODELS


def beside(model: str, module: str) -> ModuleType:
    """`module` of version 1 of a model, which finds what lies beside it, as in Triton."""
    directory = MODELS / model / "1"
    if str(directory) not in sys.path:
        sys.path.append(str(directory))
    name = f"served_{model}_{module}"
    spec = importlib.util.spec_from_file_location(name, directory / f"{module}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    spec.loader.exec_module(found)
    return found
