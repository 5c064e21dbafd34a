"""`spillway doctor`: what this machine has for on-prem serving, and what to do about the rest."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gateway import __version__
from gateway.cli import console
from gateway.core import compiled
from gateway.endpoints.triton import cuda_libraries, repository
from gateway.endpoints.triton.cuda_libraries import NoReport, Report
from gateway.endpoints.triton.installation import model_environment

_BEST_FIRST = (cuda_libraries.TENSORRT, cuda_libraries.CUDA, "CPUExecutionProvider")

_DOCUMENT_MODULES = ("pypdf", "pypdfium2", "PIL", "cv2", "rapidocr")
_NEWEST_NUMPY = 1  # that the stubs were built with: with 2.5.2 any tensor of texts ends one


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="tell what this machine has",
        description="GPU, driver, ONNX Runtime, TensorRT, Triton, models and readers of documents: "
        "what is there, what is missing, and what to do about it. Nothing is started or changed.",
    )
    parser.add_argument("--json", action="store_true", help="the findings as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    facts = examine()
    if args.json:
        console.put_json(facts)
        return 0
    for name, value in facts.items():
        good = value.get("ok", True)
        console.err.print(f"[{'green' if good else 'yellow'}]{'✓' if good else '!'}[/] ", end="")
        console.err.print(f"{name}: {value['told']}", markup=False)
    return 0


def examine() -> dict[str, dict[str, Any]]:
    return {
        "spillway": {
            "told": f"{__version__}{compiled.version_suffix()} "
            f"on Python {platform.python_version()}",
            "compiled": compiled.is_compiled(),
        },
        "machine": {"told": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"},
        "gpu": _gpu(),
        **_onnxruntime(),
        "tensorrt": _tensorrt(),
        "triton": _triton(),
        "models": _models(),
        "documents": _documents(),
    }


def _gpu() -> dict[str, Any]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {"ok": False, "gpus": [], "told": "none found (nvidia-smi is not installed)"}
    query = [tool, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        out = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError) as exc:
        return {"ok": False, "gpus": [], "told": f"nvidia-smi fails: {type(exc).__name__}"}
    gpus = [line.strip() for line in out.splitlines() if line.strip()]
    return {"ok": bool(gpus), "gpus": gpus, "told": "; ".join(gpus) or "none"}


def _onnxruntime() -> dict[str, dict[str, Any]]:
    """As the models of the embedded Triton have it: with their environment, in a process."""
    try:
        report = cuda_libraries.probe(model_environment())
    except NoReport as exc:
        return {"onnxruntime": {"ok": False, "told": f"does not start: {exc}"}}
    return {"onnxruntime": _providers(report), "libraries": _libraries(report)}


def _providers(report: Report) -> dict[str, Any]:
    both = [n for n in ("onnxruntime", "onnxruntime-gpu") if _version(n)]
    words = f"{report.version}, providers: {', '.join(report.providers)}"
    ok = len(both) == 1
    if not ok:
        words += " - onnxruntime and onnxruntime-gpu overwrite each other: uninstall one"
    best = next((name for name in _BEST_FIRST if name in report.loads), "none of them")
    words += f"; models run on {best}"
    absent = [n for n in _BEST_FIRST if n in report.providers and n not in report.loads]
    if absent and cuda_libraries.DEVICE.exists():
        ok = ok and cuda_libraries.CUDA in report.loads
        words += "".join(f" - {name} does not load: {report.cause(name)}" for name in absent)
    elif absent:
        words += " (this machine has no GPU device)"
    return {
        "ok": ok,
        "version": report.version,
        "providers": list(report.providers),
        "loads": list(report.loads),
        "told": words,
    }


def _libraries(report: Report) -> dict[str, Any]:
    """Each of CUDA's with its folder; what is missing, with the package that brings it."""
    if not report.libraries:
        return {"cuda": None, "libraries": [], "told": "this ONNX Runtime is built without CUDA"}
    by_folder: dict[str, list[str]] = {}
    for one in report.libraries:
        if one.path is not None:
            names = by_folder.setdefault(str(Path(one.path).parent), [])
            names += [] if one.name in names else [one.name]
    parts = [f"{', '.join(names)} from {folder}" for folder, names in by_folder.items()]
    parts += [_remedy(report, provider) for provider in report.providers]
    return {
        "ok": not cuda_libraries.DEVICE.exists()
        or not any(x.required for x in report.missing(cuda_libraries.CUDA)),
        "cuda": report.cuda,
        "libraries": [asdict(one) for one in report.libraries],
        "told": "; ".join([f"for CUDA {report.cuda}", *filter(None, parts)]),
    }


def _remedy(report: Report, provider: str) -> str:
    missing = report.missing(provider)
    if not missing:
        return ""
    names = ", ".join(x.name + ("" if x.required else " (some graphs)") for x in missing)
    packages = dict.fromkeys(x.package for x in missing if x.package)
    remedies = [f"pip install {' '.join(map(_quoted, packages))}"] if packages else []
    remedies += ["install the driver"] if any(x.package is None for x in missing) else []
    return f"{provider} lacks {names}: {', and '.join(remedies)}"


def _quoted(requirement: str) -> str:
    return f"'{requirement}'" if "<" in requirement else requirement


def _tensorrt() -> dict[str, Any]:
    for name in ("tensorrt", "tensorrt_rtx"):
        if importlib.util.find_spec(name) is not None:
            return {"package": name, "told": f"{name} {_version(name) or ''}".strip()}
    return {"ok": False, "package": None, "told": "not installed (extra: tensorrt)"}


def _documents() -> dict[str, Any]:
    """The packages that `classify.documents: read` needs."""
    absent = [name for name in _DOCUMENT_MODULES if importlib.util.find_spec(name) is None]
    if absent:
        words = f"not read: no {', '.join(absent)} (extra: documents)"
    else:
        words = f"read where the settings say so, with RapidOCR {_version('rapidocr')}"
    return {"ok": not absent, "absent": absent, "told": words}


def _triton() -> dict[str, Any]:
    version = _version("nvidia-pytriton")
    if version is not None:
        words = f"embedded, from nvidia-pytriton {version}"
        numpy = _version("numpy") or ""
        fits = int(numpy.partition(".")[0] or 0) <= _NEWEST_NUMPY
        if not fits:
            words += f" - NumPy {numpy} ends its stubs at the first text: pip install 'numpy<2'"
        return {"ok": fits, "embedded": version, "told": words}
    if sys.version_info >= (3, 13):
        return {"ok": False, "embedded": None, "told": "none: it needs Python 3.11 or 3.12"}
    words = "none; pip install 'spillway-gateway[embedded]', or name a server in the settings"
    return {"ok": False, "embedded": None, "told": words}


def _models() -> dict[str, Any]:
    root = Path("models")
    if not root.is_dir():
        return {"ok": False, "found": [], "told": "no ./models here"}
    models = sorted(p.parent.name for p in root.glob("*/config.pbtxt"))
    built = (root / "minilm" / "1" / "model.onnx").exists()
    words = f"{len(models)} in ./models" + ("" if built else "; not built: python models/build.py")
    hazards = [f"{h.model}: {h.text}" for h in repository.hazards(root)]
    return {
        "ok": built and not hazards,
        "found": models,
        "hazards": hazards,
        "told": "; ".join([words, *hazards]),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
