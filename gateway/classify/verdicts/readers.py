"""What a gateway with these settings reads calls with: each is started once, and shared."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from gateway.classify.names import LOOKED_FOR, Names, engines
from gateway.classify.profile import Profile
from gateway.classify.scan_workers.pool import ScanPool
from gateway.classify.scan_workers.spec import worker_spec
from gateway.classify.text.documents.pool import DocumentPool
from gateway.config import ClassifySettings
from gateway.core.types import Tightening

if TYPE_CHECKING:
    from gateway.classify.categories.reader import CategoryReader
    from gateway.classify.names.engines.remote import Door


def scan_pool(
    settings: ClassifySettings,
    added: Collection[Tightening] = (),
    on_replaced: Callable[[], None] = lambda: None,
) -> ScanPool:
    """The pool that a gateway with these settings, and such callers, classifies with."""
    spec = worker_spec(settings, added)
    return ScanPool(spec, settings.workers, settings.max_waiting, on_replaced)


def names_search(
    settings: ClassifySettings, added: Collection[Tightening], door: Door | None
) -> Names | None:
    """Where a gateway with these settings, and such callers, looks for names: nowhere, and with no
    model in memory, where none restricts anybody. `door` leads to the on-prem endpoint that the
    settings name, if they name one."""
    if LOOKED_FOR.isdisjoint(Profile.widest(settings, added).types):
        return None
    return engines.build(settings, door)


def category_reader(settings: ClassifySettings) -> CategoryReader | None:
    """None where the settings have no categories."""
    if not settings.categories:
        return None
    from gateway.classify.categories.reader import CategoryReader  # numpy; most have none

    return CategoryReader(settings)


def document_pool(settings: ClassifySettings) -> DocumentPool | None:
    """Where a gateway with these settings reads documents. None: they restrict, unread."""
    if settings.documents == "off":
        return None
    return DocumentPool(settings.workers, settings.max_waiting, settings.max_scan_bytes)
