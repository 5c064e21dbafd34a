"""What differs between two versions of the settings, and what of it a running gateway cannot take.

Keys alone are told, never values: secrets are among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gateway.config.section import Section
from gateway.config.settings import Settings

_FIXED = (
    "listen",
    "cluster",
    "audit",
    "ledger",
    "console.enabled",
    "console.tail",
    "telemetry",
    "log",
    "classify.memory",
    "limits.max_body_bytes",
    "limits.max_held_bytes",
    "limits.max_answer_bytes",
    "limits.max_held_answer_bytes",
    "limits.max_latency_budget_ms",
    "health.embedded_silent_s",
)
"""What sockets, files and processes were opened with: they are the process's, not a policy's."""

_RENEWED = ("telemetry.headers",)
"""What is below `_FIXED`, and followed by a running gateway nevertheless."""

_SERVER_KEYS = (
    "limits", "queue", "routing", "health", "endpoints", "tls", "models", "undeclared_models",
    "costs",
)  # fmt: skip
"""What gateways that share servers must agree on while they run."""

_PASSWORD = re.compile(
    r"(?<=://)(?P<user>[^:@/?]*):[^@/?]*(?=@)|\bpassword=(?:'(?:[^'\\]|\\.)*'|[^\s&]*)"
)
"""In a connection string of PostgreSQL, as a URL or as words (libpq, section 34.1.1)."""

_EMBEDDED = ("embedded", "repository", "reload")
_BUDGETS = ("spill_budget_usd_per_day", "spill_budget_usd_per_month", "spill_budget_usd_total")


def changed(before: Settings, after: Settings) -> list[str]:
    """The keys whose values differ, as `endpoints.gpu.url`."""
    return list(_differing(before, after, ()))


def needs_restart(before: Settings, after: Settings) -> list[str]:
    """Those of them that count from the next start only."""
    keys = changed(before, after)
    fixed = _FIXED if before.cluster is None else (*_FIXED, *_SERVER_KEYS)
    fixed_keys = [key for key in keys if _below(key, fixed) and not _below(key, _RENEWED)]
    if _same_database(before, after):
        fixed_keys = [key for key in fixed_keys if key != "ledger.postgres"]
    fixed_keys += [key for key in keys if _embedded_differs(key, before, after)]
    fixed_keys += _other_budgets(before, after)
    if after.anybody and not before.anybody:  # guard: O2.keys-gone
        fixed_keys.append(
            "keys"
        )  # whoever reaches the ports could call: nobody means that by a reload
    return list(dict.fromkeys(fixed_keys))


def _differing(before: Any, after: Any, where: tuple[str, ...]) -> Iterator[str]:
    if before == after:
        return
    inside = _inside(before), _inside(after)
    if inside[0] is None or inside[1] is None or len(where) >= 3:
        yield ".".join(where)
        return
    for key in dict.fromkeys((*inside[0], *inside[1])):
        if key not in inside[0] or key not in inside[1]:
            yield ".".join((*where, key))
        else:
            yield from _differing(inside[0][key], inside[1][key], (*where, key))


def _inside(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, Section):
        return {name: getattr(value, name) for name in type(value).model_fields}
    return value if isinstance(value, Mapping) else None


def _same_database(before: Settings, after: Settings) -> bool:
    """Whether at most the password for the ledger's database differs."""
    was, now = (
        None if its.ledger.postgres is None
        else _PASSWORD.sub(r"\g<user>", its.ledger.postgres.get_secret_value())
        for its in (before, after)
    )  # fmt: skip
    return was == now


def _below(key: str, some: tuple[str, ...]) -> bool:
    return any(key == one or key.startswith(f"{one}.") for one in some)


def _embedded_differs(key: str, before: Settings, after: Settings) -> bool:
    section, _, rest = key.partition(".")
    if section != "endpoints":
        return False
    for settings in (before, after):
        for name, endpoint in settings.endpoints.items():
            if endpoint.embedded and rest in (name, *(f"{name}.{k}" for k in _EMBEDDED)):
                return True
    return False


def _other_budgets(before: Settings, after: Settings) -> Iterator[str]:
    """Amounts may change. Who has a budget at all may not: a call under way would be paid for out
    of one that it was never put aside in."""
    if _has_budget(before.routing) != _has_budget(after.routing):
        yield f"routing.{_BUDGETS[0]}"
    for name in dict.fromkeys((*before.tenants, *after.tenants)):
        had, has = before.tenants.get(name), after.tenants.get(name)
        if _has_budget(had) != _has_budget(has):
            yield f"tenants.{name}.{_BUDGETS[0]}"


def _has_budget(section: object) -> bool:
    return any(getattr(section, key, None) is not None for key in _BUDGETS)
