"""Callers by the certificate that their connection was opened with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.auth.caller import Caller, caller_from_scope
from gateway.config import CertificateSettings, TenantSettings
from gateway.core.types import Tightening


class ConfiguredCertificates:
    """By a name in the certificate, whole: the authority vouches for it, and a part of a name is
    another one's."""

    def __init__(
        self,
        certificates: Mapping[str, CertificateSettings],
        tenants: Mapping[str, TenantSettings],
    ) -> None:
        self._callers = {
            its.san: caller_from_scope(name, its.tenant, its, tenants.get(its.tenant))
            for name, its in certificates.items()
        }

    def find(self, names: Sequence[str]) -> Caller | None:
        """None for one that names nobody, or several: which of them calls, nobody can say."""
        matches = [self._callers[name] for name in dict.fromkeys(names) if name in self._callers]
        # guard: M5.certificate-name len(matches) == 1 -> matches
        return matches[0] if len(matches) == 1 else None

    def tightenings(self) -> frozenset[Tightening]:
        return frozenset(caller.tightening for caller in self._callers.values())
