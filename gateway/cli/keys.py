"""`spillway keys`: make, list, revoke and rotate the keys of a key store."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pwd
import re
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.auth.key_form import key_digest, new_key
from gateway.auth.key_store import KeyRecord, KeyStore, KeyStoreUnreadable, NoSuchKey
from gateway.cli import console
from gateway.config import ConfigError, Name, ScopeSettings
from gateway.config.section import NAME_WORDS
from gateway.core import ambient

_UNITS_S = {"m": 60, "h": 3600, "d": 86400}
_SPAN = re.compile(r"([0-9]{1,6})([mhd])")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "keys",
        help="make, list, revoke and rotate API keys",
        description="Keys of the key_store of the settings. A gateway that runs accepts a new key "
        "within 2 seconds and refuses a revoked one within 5.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="make a key; it is shown once")
    create.add_argument("tenant", help="whose calls are made with it; costs and limits are its")
    create.add_argument("--name", default="", help="what people call it")
    create.add_argument("--expires", metavar="WHEN", help="after 90d, 12h or 30m, or on a date")
    _add_scope(create)
    listed = actions.add_parser("list", help="the keys, without their secrets")
    listed.add_argument("--json", action="store_true", help="as JSON, one object a line")
    revoke = actions.add_parser("revoke", help="end a key now")
    revoke.add_argument("id", help="of the key, as `spillway keys list` shows it")
    rotate = actions.add_parser("rotate", help="make a key with the scope of another, which ends")
    rotate.add_argument("id", help="of the old key, as `spillway keys list` shows it")
    rotate.add_argument("--overlap", default="24h", help="both work so long, default %(default)s")
    doers = {create: _create, listed: _list, revoke: _revoke, rotate: _rotate}
    for action, do in doers.items():
        console.add_config(action)
        action.add_argument(
            "--store", type=Path, metavar="FILE", help="of the keys, instead of key_store"
        )
        action.set_defaults(run=run, do=do)


def _add_scope(create: argparse.ArgumentParser) -> None:
    many: dict[str, Any] = {"action": "append", "metavar": "NAME", "default": None}
    create.add_argument("--models", **many, help="may use this model, and no other; repeatable")
    create.add_argument(
        "--model-map", type=_named_model, action="append", metavar="NAME=MODEL", default=None,
        help="gets this model by a name of its own; repeatable",
    )  # fmt: skip
    create.add_argument("--placement", choices=("onprem", "any"), help="onprem: its calls stay")
    create.add_argument("--zones", **many, help="its calls go to this zone alone; repeatable")
    create.add_argument("--label", metavar="CLASS", help="its calls are of this class, or stricter")
    create.add_argument("--spill", choices=("never", "allow"), help="never: its calls stay")
    create.add_argument(
        "--latency-budget-ms", type=float, metavar="MS", help="its calls have no more than this"
    )
    create.add_argument(
        "--profile", choices=("patterns", "balanced", "strict"),
        help="what restricts its calls, if that is more than classify.profile",
    )  # fmt: skip
    create.add_argument("--restrict", **many, help="one more entity type; repeatable")
    create.add_argument("--threshold", type=float, help="lower than classify.threshold")
    create.add_argument(
        "--most-urgent-priority",
        type=int,
        metavar="0-9",
        help="the most urgent that it can ask for",
    )
    create.add_argument("--requests-per-minute", type=float, metavar="N", help="then 429")
    create.add_argument("--tokens-per-minute", type=float, metavar="N", help="in and out; then 429")
    create.add_argument("--max-concurrent", type=int, metavar="N", help="calls at once; then 429")


def _named_model(text: str) -> tuple[str, str]:
    name, _, model = text.partition("=")
    if not name or not model:
        raise argparse.ArgumentTypeError("write NAME=MODEL")
    return name, model


def run(args: argparse.Namespace) -> int:
    """Exit codes: 1 when the store cannot be used or has no such key."""
    try:
        store = KeyStore(_path(args), by=_user())
        try:
            args.do(args, store)
        finally:
            store.close()
    except KeyStoreUnreadable as exc:
        console.fail(str(exc))
        return 1
    except NoSuchKey:
        console.fail(f"there is no key {args.id} in use; `spillway keys list` shows them")
        return 1
    return 0


def _user() -> str:
    """As the system knows it: the environment can say anything."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user of a container that has no name
        return f"uid {os.getuid()}"


def _path(args: argparse.Namespace) -> Path:
    if args.store is not None:
        return Path(args.store)
    path = console.load_settings(args.config).key_store
    if path is None:
        raise ConfigError(
            "key_store: is not in the settings; add `key_store: var/keys.db`, or name a --store"
        )
    return path


def _create(args: argparse.Namespace, store: KeyStore) -> None:
    now_s = ambient.wall_s()
    tenant = _tenant(args.tenant)
    expires = None if args.expires is None else _expiry(args.expires, now_s)
    key, key_id = new_key(ambient.random_bytes)
    scope = _scope(args)
    store.add(KeyRecord(key_id, key_digest(key), tenant, args.name, scope, now_s, expires))
    _show(key, key_id)


def _rotate(args: argparse.Namespace, store: KeyStore) -> None:
    now_s = ambient.wall_s()
    until_s = now_s + _span_s("overlap", args.overlap)
    old = next((r for r in store.all() if r.id == args.id and not r.why_not(now_s)), None)
    if old is None:
        raise NoSuchKey
    key, key_id = new_key(ambient.random_bytes)
    new = KeyRecord(
        key_id, key_digest(key), old.tenant, old.name, old.scope, now_s, old.expires,
        replaces=old.id,
    )  # fmt: skip
    store.rotate(old.id, new, until_s)
    _show(key, key_id)
    console.err.print(f"key {old.id} ends {_date(until_s)}")


def _revoke(args: argparse.Namespace, store: KeyStore) -> None:
    store.revoke(args.id, ambient.wall_s())
    console.err.print(f"[green]✓[/] key {args.id} is revoked; gateways refuse it within 5 seconds")


def _list(args: argparse.Namespace, store: KeyStore) -> None:
    now_s = ambient.wall_s()
    if args.json:
        for record in store.all():
            print(json.dumps(_described(record, now_s)))
        return
    table = Table("id", "tenant", "name", "state", "expires", "scope", box=box.SIMPLE_HEAD)
    for record in store.all():
        description = _described(record, now_s)
        scope = ", ".join(f"{k}: {v}" for k, v in description["scope"].items())
        ends = "" if record.expires is None else _date(record.expires)
        cells = (record.id, record.tenant, record.name, description["state"], ends, scope)
        table.add_row(*map(Text, cells))
    Console(highlight=False, emoji=False).print(table)


def _described(record: KeyRecord, now_s: float) -> dict[str, Any]:
    return {
        "id": record.id,
        "tenant": record.tenant,
        "name": record.name,
        "state": record.why_not(now_s) or "in use",
        "created": _date(record.created),
        "expires": None if record.expires is None else _date(record.expires),
        "revoked": None if record.revoked is None else _date(record.revoked),
        "replaces": record.replaces,
        "scope": json.loads(record.scope),
    }


def _show(key: str, key_id: str) -> None:
    """The key alone on standard output, for who puts it straight into a vault."""
    print(key)
    console.err.print(f"[green]✓[/] key {key_id}: this is the only time that it is shown")


def _scope(args: argparse.Namespace) -> str:
    """What was said of it as JSON. Raises ConfigError."""
    given = {name: getattr(args, name) for name in ScopeSettings.model_fields}
    given["model_map"] = None if args.model_map is None else dict(args.model_map)
    try:
        scope = ScopeSettings.model_validate({k: v for k, v in given.items() if v is not None})
    except ValidationError as exc:
        lines = [f"--{str(e['loc'][0]).replace('_', '-')}: {e['msg']}" for e in exc.errors()]
        raise ConfigError("\n".join(lines)) from None
    return scope.model_dump_json(exclude_defaults=True)


def _tenant(given: str) -> str:
    try:
        return str(TypeAdapter(Name).validate_python(given))
    except ValidationError:
        raise ConfigError(f"tenant: {NAME_WORDS}") from None


def _expiry(given: str, now_s: float) -> float:
    if _SPAN.fullmatch(given):
        return now_s + _span_s("expires", given)
    try:
        day = datetime.datetime.fromisoformat(given)
    except ValueError:
        raise ConfigError("--expires: write 90d, 12h, 30m or a date such as 2027-01-31") from None
    at_s = (day if day.tzinfo else day.replace(tzinfo=datetime.UTC)).timestamp()
    if at_s <= now_s:
        raise ConfigError("--expires: is in the past")
    return at_s


def _span_s(option: str, given: str) -> float:
    match = _SPAN.fullmatch(given)
    if match is None:
        raise ConfigError(f"--{option}: write a number and m, h or d, such as 24h")
    return float(int(match.group(1)) * _UNITS_S[match.group(2)])


def _date(at_s: float) -> str:
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC).isoformat(timespec="seconds")
