"""`spillway models build`: the variants of a model, or a model from an ONNX file."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.cli import console
from gateway.cli.models import SUBCOMMANDS, add_repository, chosen, reporting, serving
from gateway.config import ConfigError
from gateway.models import versions
from gateway.models.adoption import exported
from gateway.models.declaration import Declaration
from gateway.models.failures import ModelCommandFailed, WrongModel

if TYPE_CHECKING:
    from gateway.models.variants import build
    from gateway.models.variants.engines import EngineBuilder

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "build",
        help="optimise and compile a model; or add one from an ONNX file",
        description="NAME: check, optimise and compile a model that is declared. FILE.onnx, or a "
        "folder with one, with --as NAME: add it to the repository first, verified, as a new model "
        "or a new version.",
    )
    parser.add_argument("what", metavar="NAME|FILE.onnx|FOLDER")
    parser.add_argument("--as", dest="name", metavar="NAME", help="what the file is to be called")
    parser.add_argument("--declaration", type=Path, metavar="FILE", help="its model.yaml")
    parser.add_argument(
        "--tokenizer", type=Path, metavar="FILE", help="a tokenizer.json: the model takes text"
    )
    parser.add_argument("--about", default="not said yet", help="what it is, for a drafted one")
    parser.add_argument("--licence", default="not said yet", help="for a drafted declaration")
    parser.add_argument(
        "--engine",
        action="append",
        choices=("tensorrt", "tensorrt_rtx", "none"),
        help="who compiles it; whoever is installed when not given",
    )
    parser.add_argument("--no-profile", action="store_true", help="measure no curve afterwards")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    add_repository(parser)
    serving.add_options(parser)
    parser.set_defaults(run=run)


@reporting
def run(args: argparse.Namespace) -> int:
    from_file = args.name is not None or args.what.endswith(exported.SUFFIXES)
    name = _name(args, from_file)
    settings = serving.settings_target(args) if from_file else None
    with console.progress() as report:
        results: dict[str, Any] = {"model": name}
        results |= (_added if from_file else _built)(args, name, report)
        if settings is not None:
            report("serving it")
            declared = versions.declared(args.repository / name)
            results |= _served(args, declared, results["added"], settings)
    if from_file and not args.no_profile:
        results["profiled"] = _profiled(args, name)
    if args.json:
        console.put_json(results)
    else:
        _print(results)
    return 0


def _name(args: argparse.Namespace, from_file: bool) -> str:
    if not from_file:
        return str(args.what)
    if args.name is None:
        raise WrongModel(f"{args.what}: say what it is to be called, with --as NAME")
    if not _NAME.fullmatch(args.name):
        raise WrongModel(f"--as {args.name}: a name has letters, digits, _, . and -")
    return str(args.name)


def _added(args: argparse.Namespace, name: str, report: Any) -> dict[str, Any]:
    from gateway.models.adoption import adopt, draft  # ONNX Runtime takes a second to import

    given = draft.DraftDetails(name, args.about, args.licence, args.tokenizer)
    for path in (args.tokenizer, args.declaration):
        if path is not None and not path.is_file():
            raise WrongModel(f"{path}: is not there")
    builders = _builders(args.engine)
    done = adopt.adopt(
        args.repository, Path(args.what), given, args.declaration, report, builders,
        _optional(args.engine, builders),
    )  # fmt: skip
    added = {
        "directory": str(done.directory),
        "version": done.version,
        "drafted": done.drafted,
        "verified": done.verified.as_json(),
        "unbatched": done.unbatched and str(done.unbatched),
    }
    return {"added": added, **_as_json(done.built)}


def _served(
    args: argparse.Namespace,
    declared: Declaration,
    added: dict[str, Any],
    settings: serving.SettingsTarget,
) -> dict[str, Any]:
    """Running servers first: a gateway that follows its settings finds the model there."""
    from gateway.models.adoption import adopt  # as above

    updated = serving.load(args, declared.name, added["version"])
    entry = adopt.declared_settings(declared, settings.endpoint)
    added["settings"] = {"models": entry}
    result: dict[str, Any] = {
        "settings_file": settings.path and str(settings.path),
        "serving": list(updated.serving),
        "later": list(updated.later),
        "entry": settings.block(entry, args.repository),
    }
    if settings.path is None or args.print_entry:
        return result
    try:
        result["written"] = settings.add(declared.name, entry[declared.name])
    except (ConfigError, OSError) as exc:
        return {**result, "not_written": str(exc)}
    if updated.serving:
        answer = serving.gateway_serving(settings.path, declared.name, added["version"])
        result["gateway"], result["confirmed"] = answer or (None, False)
    return result


def _built(args: argparse.Namespace, name: str, report: Any) -> dict[str, Any]:
    from gateway.models.variants import build  # as above

    (directory,) = chosen(args.repository, [name])
    declared = versions.declared(directory)
    builders = _builders(args.engine)
    optional = _optional(args.engine, builders)
    return _as_json(build.build(directory, declared, builders, report, optional))


def _as_json(built: build.BuildResult) -> dict[str, Any]:
    files = [
        {"file": m.file, "precision": m.precision.value, "bytes": m.size_bytes, **m.facts}
        for m in built.files
    ]
    return {"files": files, "left_out": dict(built.left_out)}


def _optional(wanted: Sequence[str] | None, builders: Sequence[EngineBuilder]) -> set[str]:
    """Builders that the command line does not name."""
    return {builder.name for builder in builders} if wanted is None else set()


def _builders(wanted: Sequence[str] | None) -> list[EngineBuilder]:
    """Those that were asked for, each of which must be there; else whoever is there."""
    from gateway.models.variants.engines.kinds import builders  # as above

    known = builders()
    if wanted is None:
        return [builder for builder in known.values() if builder.missing() is None]
    chosen = [known[name] for name in wanted if name != "none"]
    for builder in chosen:
        if (missing := builder.missing()) is not None:
            raise ModelCommandFailed(missing)
    return chosen


def _profiled(args: argparse.Namespace, name: str) -> bool:
    """By `spillway models profile`, as if it were typed."""
    if "profile" not in SUBCOMMANDS:
        return False
    parser = argparse.ArgumentParser(prog="spillway models")
    inner = parser.add_subparsers()
    importlib.import_module("gateway.cli.models.profile").register(inner)
    given = parser.parse_args(["profile", name, "--repository", str(args.repository)])
    with contextlib.redirect_stdout(sys.stderr):  # where the result of this command goes alone
        return bool(given.run(given) == 0)


def _print(results: Mapping[str, Any]) -> None:
    console.err.print(f"[green]ok[/]: {results['model']}")
    for file in results["files"]:
        line = f"  {file['file']}: {file['precision']}, {file['bytes']:,} bytes"
        if "accuracy" in file:
            line += f", {file['accuracy']['metric']} {file['accuracy']['after']}"
        if "engine" in file:
            shapes = "; ".join(
                f"{n} {a} {b} {c}" for n, (a, b, c) in file["engine"]["profiles"].items()
            )
            line += f", {file['engine']['builder']} {file['engine']['builder_version']}: {shapes}"
        console.err.print(line, markup=False)
    for name, why in results["left_out"].items():
        console.err.print(f"  {name} is left out: {why}", markup=False)
    if (added := results.get("added")) is None:
        return
    console.err.print(f"  verified: {added['directory']}, version {added['version']}", markup=False)
    if added["drafted"]:
        console.err.print(
            f"  complete {added['directory']}/model.yaml: about, licence, source and the ranges, "
            "then run `spillway models config`",
            markup=False,
        )
    if added["unbatched"]:
        console.err.print(
            f"  served without dynamic batching; rows are {added['unbatched']}", markup=False
        )
    _print_served(results)


def _print_served(results: Mapping[str, Any]) -> None:
    file = results["settings_file"]
    lines = [f"{url} has loaded it" for url in results["serving"]]
    lines += [f"{url} takes it from its next start on (reload: false)" for url in results["later"]]
    if "written" in results:
        lines += [f"{file}: {'has its entry now' if results['written'] else 'names it already'}"]
    if gateway := results.get("gateway"):
        follows = "follows its settings, and tells nobody without a key whether it serves it"
        lines += [f"{gateway} {'serves it' if results['confirmed'] else follows}"]
    elif "written" in results and results["serving"]:
        lines += [f"no gateway of {file} has taken it yet; SIGHUP makes one read its settings"]
    for line in lines:
        console.err.print(f"  {line}", markup=False)
    if "written" in results:
        return
    if why := results.get("not_written"):
        console.err.print(f"  {file}: {why}; add by hand:", markup=False)
    else:
        console.err.print(f"  to serve it, {'add to' if file else 'make'} the settings:")
    console.err.print(textwrap.indent(results["entry"], "    "), end="", markup=False)
