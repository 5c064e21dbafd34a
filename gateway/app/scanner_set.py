"""The scanners of one version of the settings: processes, models and compiled patterns, which take
seconds to start and are shared by all versions that would have the same."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection

from gateway.classify.categories import category_files, file_digest
from gateway.classify.classifier import Classifier
from gateway.classify.conversations.taint import TaintMarks
from gateway.classify.text.spans import FullFindings
from gateway.classify.verdicts.readers import document_pool, names_search, scan_pool
from gateway.config import ClassifySettings, Settings
from gateway.config.model_catalog import Catalog
from gateway.config.zones.admission import DataClasses
from gateway.core.deadline import Clock
from gateway.core.types import Tightening
from gateway.endpoints.connectors import OnPremBackend


class Scanning:
    """A classifier that others are made of, and the search for whole findings where surrogates or
    masks may be wanted."""

    def __init__(
        self,
        settings: Settings,
        added: Collection[Tightening],
        door: OnPremBackend | None,
        catalog: Catalog,
        clock: Clock,
        replaced: Callable[[], None],
        before: Scanning | None = None,
        marks: TaintMarks | None = None,
    ) -> None:
        """`added`: what callers add to what restricts. `door`: to the endpoint that looks for
        names, if one does. `replaced` is told of scan workers that were. What `before`
        holds to be restricted stays so; `marks`: what all workers do."""
        classify = settings.classify
        self._key = _key(settings, added, door)
        names = names_search(classify, added, door)
        pool = scan_pool(classify, added, replaced)
        taint = None if before is None else before._first.taint
        self._first: Classifier = Classifier(
            classify, catalog, pool, clock, added=added, names=names, taint=taint, marks=marks,
            documents=document_pool(classify),
        )  # fmt: skip
        self.full: FullFindings | None = None
        if pseudonymises(settings) or masks_answers(settings):
            self.full = FullFindings(classify, added, names, on_replaced=replaced)

    def fits(
        self, settings: Settings, added: Collection[Tightening], door: OnPremBackend | None
    ) -> bool:
        return self._key == _key(settings, added, door)

    def classifier(self, catalog: Catalog, classes: DataClasses) -> Classifier:
        """For these models and classes. Verdicts are never those of another version of the
        settings (C11)."""
        return self._first.for_catalog(catalog, classes)

    async def start(self) -> None:
        """Raises ScannerUnfit when a scanner misses one of its samples (C8)."""
        await self._first.start()
        if self.full is not None:
            await self.full.start()

    async def aclose(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._first.aclose)
            if self.full is not None:
                stack.push_async_callback(self.full.aclose)


def pseudonymises(settings: Settings) -> bool:
    allowed = (settings.models.values(), settings.keys.values())
    return all(any(one.pseudonymise for one in some) for some in allowed)


def masks_answers(settings: Settings) -> bool:
    return any(key.mask_answers for key in settings.keys.values())


def _key(settings: Settings, added: Collection[Tightening], door: OnPremBackend | None) -> object:
    classify = settings.classify
    whole = pseudonymises(settings) or masks_answers(settings)
    return classify, _files(classify), frozenset(added), id(door), whole


def _files(classify: ClassifySettings) -> tuple[str, ...]:
    """What is in the files that they name, which may change while their names do not."""
    names = classify.names
    named = (classify.registry, classify.recognizers, names.nlp_configuration, names.recognizers)
    categories = category_files(classify)  # guard: C21.reload -> categories = []
    return tuple("" if path is None else file_digest(path) for path in (*named, *categories))
