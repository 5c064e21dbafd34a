"""How commands reach a running gateway over https: the options and the TLS context they make."""

from __future__ import annotations

import argparse
import ssl
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from gateway.config import ConfigError, external_addresses
from gateway.protocols.tls import TlsFiles, client_context

DEFAULT_URL = "http://127.0.0.1:8080"


def no_default(option: str) -> str | None:
    return None


def add_tls(
    parser: argparse.ArgumentParser, default: Callable[[str], str | None] = no_default
) -> None:
    """`default`: of an option, by its name without dashes in front."""
    for name, what in (
        ("ca-file", "whose certificate an https gateway must show"),
        ("cert-file", "the one to show it, if it asks for one"),
        ("key-file", "its key"),
    ):
        parser.add_argument(f"--{name}", type=Path, default=default(name), help=what)


def tls_context(args: argparse.Namespace) -> ssl.SSLContext:
    """Raises ConfigError."""
    if (args.cert_file is None) != (args.key_file is None):
        raise ConfigError("--cert-file, --key-file: go together")
    return client_context(TlsFiles("--ca-file", args.cert_file, args.key_file, args.ca_file))


def trusting_loopback(args: argparse.Namespace, url: str) -> ssl.SSLContext:
    """Without a CA a gateway on the loopback is taken at its word: for a command that sends it
    nothing, so that all it could feign is being ready."""
    context = tls_context(args)
    if args.ca_file is None and external_addresses.is_loopback(urlsplit(url).hostname or ""):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
