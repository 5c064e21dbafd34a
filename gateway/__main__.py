"""`spillway`: the command line."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from gateway import __version__
from gateway.cli import console
from gateway.core import compiled
from gateway.core.config_error import ConfigError

_COMMANDS = (
    "serve",
    "demo",
    "prepare",
    "check",
    "schema",
    "explain",
    "classify",
    "values",
    "doctor",
    "healthcheck",
    "simulate",
    "import",
    "top",
    "audit",
    "keys",
    "models",
    "costs",
)
_MODULES = {
    "check": "settings.check",
    "schema": "settings.schema",
    "import": "settings.importing",  # `import` is no module's name
    "explain": "running.explain",
    "healthcheck": "running.healthcheck",
    "values": "categories.values",
    "top": "running.top",
}
"""Of commands that stand in a package."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 failed, 2 the input was wrong, 130 interrupted, 141 the reader left."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # it reports every child process that we start
    # Else it asks every installed distribution for plugins, which takes longer than our settings.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    console.speak_in_log(False)
    given = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="spillway", description="A hybrid inference gateway that keeps restricted data home."
    )
    version = f"spillway {__version__}{compiled.version_suffix()}"
    parser.add_argument("--version", action="version", version=version)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    named = [name for name in _COMMANDS if name in given[:1]]
    for name in named or _COMMANDS:  # only the command that is asked for is imported
        importlib.import_module(command_module(name)).register(subparsers)
    args = parser.parse_args(given)
    try:
        return int(args.run(args))
    except ConfigError as exc:
        console.fail(str(exc))
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # who reads the output has seen enough, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
        return 141


def command_module(command: str) -> str:
    return f"gateway.cli.{_MODULES.get(command, command)}"


if __name__ == "__main__":
    sys.exit(main())
