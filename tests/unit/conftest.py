"""What the unit tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest


@pytest.fixture(scope="session")
async def one_event_loop(anyio_backend: str) -> AsyncIterator[None]:
    """For tests with `grpc.aio`, which has one queue of events per process: what is left there of
    a test's cancelled calls comes up in the next test, and fails that if the loop is gone."""
    yield  # noqa: PT022 - the loop lives for as long as this does
