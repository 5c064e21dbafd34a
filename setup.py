"""The compiled build, for who asks for it: `SPILLWAY_COMPILE=1 pip install .`

All else is in pyproject.toml, also which modules are compiled (`tool.spillway.compiled`). What is
compiled is a copy in which each value (gateway/core/structs.py) has its constructor written out:
mypyc makes a native class of a dataclass, but would leave the constructor to the interpreter.
"""

from __future__ import annotations

import ast
import os
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

_ROOT = Path(__file__).parent
_COPY = Path("build", "compiled")
_IMPORT = "from gateway.core.structs import value"
_DECORATOR = "@dataclasses.dataclass(init=False, unsafe_hash=True)"
_NONE = "None if __debug__ else None"
_OPTIONS = ("--ignore-missing-imports", "--follow-imports=silent", "--no-warn-unused-ignores")


def compiled() -> list[Extension]:
    from mypyc.build import mypycify  # only who compiles needs it

    names = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["spillway"]["compiled"]
    paths = [_path(name) for name in names["modules"]]
    for path in (_ROOT / "gateway").rglob("*.py"):
        copy = _COPY / path.relative_to(_ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(written_out(path.read_text(encoding="utf-8")), encoding="utf-8")
    level = os.environ.get("SPILLWAY_COMPILE_LEVEL", "2")
    return mypycify(
        [*_OPTIONS, *(str(_COPY / path) for path in paths)],
        opt_level=level,
        debug_level="0",
        group_name="spillway",
        multi_file=True,  # or one compiler takes gigabytes
        target_dir=str(_COPY / "c"),
    )


def _is_asked_for() -> bool:
    """Not where pip only wants to know what this is: that would take a minute each time."""
    told = {"dist_info", "egg_info", "sdist"} & set(sys.argv)
    return os.environ.get("SPILLWAY_COMPILE") == "1" and not told


class OnAllCores(build_ext):
    """setuptools compiles the files of an extension one after the other, and nearly all are of one.
    Here compiler and linker run for as many at once as there are cores."""

    def build_extensions(self) -> None:
        compile_, link = self.compiler._compile, self.compiler.link_shared_object
        compiled: dict[str, Future[Any]] = {}
        linked: list[Future[Any]] = []

        def compile_later(obj: str, *given: Any) -> None:
            compiled[obj] = pool.submit(compile_, obj, *given)

        def link_later(objects: Sequence[str], *given: Any, **named: Any) -> None:
            linked.append(pool.submit(link_when_there, objects, *given, **named))

        def link_when_there(objects: Sequence[str], *given: Any, **named: Any) -> None:
            for obj in objects:  # begun before this was: the pool takes what comes in turn
                if obj in compiled:
                    compiled[obj].result()
            link(objects, *given, **named)

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            self.compiler._compile = compile_later
            self.compiler.link_shared_object = link_later
            super().build_extensions()
            try:
                for each in linked:
                    each.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _path(module: str) -> Path:
    path = Path(*module.split("."))
    return path / "__init__.py" if (_ROOT / path).is_dir() else path.with_suffix(".py")


def written_out(source: str) -> str:
    """`source` with the constructors of its values, each line where it was."""
    lines = source.splitlines()
    found = False
    for made in ast.walk(ast.parse(source)):
        if isinstance(made, ast.ClassDef) and (at := _decorated(made)) is not None:
            found = True
            indent = " " * made.body[0].col_offset
            end = made.end_lineno or made.lineno
            if len(lines) > end and lines[end].strip():
                raise ValueError(f"no empty line behind {made.name}, for its constructor")
            lines[at - 1] = f"{' ' * made.col_offset}{_DECORATOR}"
            lines[end : end + 1] = [indent + _constructor(made)]
        elif isinstance(made, ast.ClassDef) and not made.decorator_list:
            for default in made.body:
                if _is_none_at_first(default):
                    line = default.lineno - 1
                    lines[line] = lines[line].replace(" = None", f" = {_NONE}", 1)
    if found:
        imported = next(n for n, line in enumerate(lines) if line.startswith(_IMPORT))
        lines[imported] += "; import dataclasses"
    return "\n".join(lines) + "\n"


def _is_none_at_first(default: ast.stmt) -> bool:
    """An attribute that is None until it is set. Where its type is a protocol's, mypyc 2.4 takes
    the bare None for a declaration, and the attribute would be missing."""
    return (
        isinstance(default, ast.AnnAssign)
        and isinstance(default.value, ast.Constant)
        and default.value.value is None
    )


def _decorated(made: ast.ClassDef) -> int | None:
    for decorator in made.decorator_list:
        if isinstance(decorator, ast.Name) and decorator.id == "value":
            return decorator.lineno
    return None


def _constructor(made: ast.ClassDef) -> str:
    parameters, body = ["self"], []
    for field in made.body:
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        name, kind, default = field.target.id, ast.unparse(field.annotation), field.value
        given = name
        if isinstance(default, ast.Call) and ast.unparse(default.func) == "field":
            said = {word.arg: word.value for word in default.keywords}
            if "init" in said:  # `__post_init__` sets it
                continue
            default = said.get("default")
            if "default_factory" in said:
                if "None" in kind:
                    raise ValueError(f"{name}: None could be said or meant")
                kind, default = f"{kind} | None", ast.Constant(None)
                given = f"({ast.unparse(said['default_factory'])})() if {name} is None else {name}"
        behind = "" if default is None else f" = {ast.unparse(default)}"
        parameters.append(f"{name}: {kind}{behind}")
        body.append(f"self.{name} = {given}")
    if any(
        isinstance(part, ast.FunctionDef) and part.name == "__post_init__" for part in made.body
    ):
        body.append("self.__post_init__()")
    return f"def __init__({', '.join(parameters)}) -> None: {'; '.join(body)}"


if __name__ == "__main__":
    setup(
        ext_modules=compiled() if _is_asked_for() else [],
        cmdclass={"build_ext": OnAllCores},
    )
