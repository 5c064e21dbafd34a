"""A version in a Triton of its own, before it comes near the one that serves."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway.endpoints.triton import TritonNotInstalled, TritonServerError
from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.server import TritonServer
from gateway.models.declaration import Declaration
from gateway.models.registry import UnfitVersion
from gateway.models.registry.server import Server, ServerError

_GRACE_S = 1.0


class NoTrial(Exception):
    """This machine has no Triton that could try a version; the message says why."""


def passed(repository: Path, declaration: Declaration, version: int) -> None:
    """Of a repository with this one model. Raises Unfit for a version that does not load or
    answers the canary wrongly, and NoTrial."""
    try:
        asyncio.run(_tried(repository, declaration, version))
    except TritonNotInstalled as exc:
        raise NoTrial(str(exc)) from None
    except ServerError as exc:
        raise UnfitVersion(
            f"version {version} of {declaration.name} was tried and failed: {exc}"
        ) from None
    except TritonServerError as exc:
        raise NoTrial(str(exc)) from None


async def _tried(repository: Path, declaration: Declaration, version: int) -> None:
    options = TritonOptions((repository,), (declaration.name,), stop_grace_s=_GRACE_S)
    async with TritonServer(options) as server:
        for why in server.unavailable.values():
            raise ServerError(why.split("\n\nAt:")[0][:500])
        ours = Server(f"http://127.0.0.1:{server.ports.http}")
        rows = 1 if declaration.batch else 0
        await asyncio.to_thread(ours.ask, declaration, version, rows)
