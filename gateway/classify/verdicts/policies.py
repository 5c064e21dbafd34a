"""What restricts each caller: the settings, and what its key and its tenant add to them."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Collection
from dataclasses import dataclass, replace

from gateway.classify.categories import category_files, file_digest
from gateway.classify.names import LOOKED_FOR, engines
from gateway.classify.profile import Profile
from gateway.config import ClassifySettings
from gateway.core.types import NOT_TIGHTENED, Tightening

_BESIDES_VERDICTS = {"budget_ms", "workers", "max_waiting", "memory", "answers", "classes"}
REVISION = 5  # of the rules in this room: what is read, which forms, which types restrict


@dataclass(frozen=True, slots=True)
class CallerPolicy:
    """What restricts some callers."""

    profile: Profile
    version: str
    has_names: bool  # to look for
    has_more: bool  # names or categories: what is only read in a call that would leave
    excluded: frozenset[str] = frozenset()  # types that do not count, of categories among them


class CallerPolicies:
    """The policies of all callers: as many as callers add to the settings, each in its own way."""

    def __init__(
        self, settings: ClassifySettings, added: Collection[Tightening], has_names: bool
    ) -> None:
        """`added`: what callers may add. `has_names`: whether anybody looks for names."""
        self.version = _version(settings)
        self.widest = Profile.widest(settings, added)
        self._settings = settings
        self._has_names = has_names
        self.usual = self._make(NOT_TIGHTENED)
        self._by_tightening = {NOT_TIGHTENED: self.usual}
        self._without: dict[tuple[Tightening, frozenset[str]], CallerPolicy] = {}

    def find(self, added: Tightening) -> CallerPolicy:
        """The policy of callers that add this."""
        if added not in self._by_tightening:
            self._by_tightening[added] = self._make(added)
        return self._by_tightening[added]

    def without(self, added: Tightening, excluded: frozenset[str]) -> CallerPolicy:
        """That policy, if these types did not restrict."""
        known = self._without.get((added, excluded))
        if known is None:
            known = self._without[added, excluded] = self._make(added, excluded)
        return known

    def cover(self, added: Tightening) -> bool:
        """Whether the scanners were built for all that this adds."""
        profile, widest = self.find(added).profile, self.widest
        return profile.types <= widest.types and profile.threshold >= widest.threshold

    def _make(self, added: Tightening, excluded: frozenset[str] = frozenset()) -> CallerPolicy:
        profile = Profile.from_settings(self._settings, added)
        profile = replace(profile, types=profile.types - excluded)
        rules = repr((self.version, profile.name, sorted(profile.types), profile.threshold))
        if excluded:
            rules += repr(sorted(excluded))
        has_names = self._has_names and not LOOKED_FOR.isdisjoint(profile.types)
        # guard: C21.more-to-read minus 2
        has_more = has_names or bool(self._settings.categories)
        return CallerPolicy(
            profile,
            hashlib.sha256(rules.encode()).hexdigest(),
            has_names,
            has_more,
            excluded,
        )


def _version(settings: ClassifySettings) -> str:
    """`presidio version/names version/revision/hash of what decides`; lists go in as a hash."""
    rules = settings.model_dump_json(exclude=_BESIDES_VERDICTS)
    rules += "".join(map(file_digest, category_files(settings)))  # guard: C21.file-version
    digest = hashlib.sha256(rules.encode()).hexdigest()[:12]
    presidio = importlib.metadata.version("presidio-analyzer")
    return f"presidio-{presidio}/{engines.version(settings.names)}/{REVISION}/{digest}"
