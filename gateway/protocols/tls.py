"""TLS contexts that keep up with their files: a new connection has the certificate that lies there
now, connections that are open go on.

Made by hand because `ssl.create_default_context` writes keys to $SSLKEYLOGFILE. TLS 1.2 is the
oldest. What cannot be read at the start is an error; later, what was there before stays in use, and
the log says so: half of a pair may be written a moment after the other.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gateway.core.yaml_document import ConfigError

log = logging.getLogger(__name__)

FileStamps = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files; `where` is the key of the settings that they stand under."""

    where: str
    cert_file: Path | None = None
    key_file: Path | None = None  # without a passphrase
    ca_file: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        given = (self.cert_file, self.key_file, self.ca_file)
        return tuple(path for path in given if path is not None)

    def stamps(self) -> FileStamps:
        """Different whenever one of them has been changed or replaced."""
        return tuple(_state(path) for path in self.paths)

    def read(self, path: Path | None) -> bytes | None:
        """Raises ConfigError."""
        try:
            return None if path is None else path.read_bytes()
        except OSError as exc:
            raise ConfigError(f"{self.where}: {path} cannot be read: {exc.strerror}") from None

    def load_into(self, context: ssl.SSLContext) -> None:
        """Raises ConfigError."""
        for path in self.paths:
            self.read(path)
        if self.ca_file is not None:
            try:
                context.load_verify_locations(str(self.ca_file))
            except (OSError, ssl.SSLError):
                raise ConfigError(
                    f"{self.where}: {self.ca_file} is not a PEM file of certificates"
                ) from None
        if self.cert_file is not None:
            try:
                context.load_cert_chain(str(self.cert_file), self.key_file, _no_passphrase)
            except (OSError, ssl.SSLError):
                raise ConfigError(
                    f"{self.where}: {self.cert_file} and {self.key_file} are not a certificate "
                    "and its key in PEM, without a passphrase"
                ) from None


NO_FILES = TlsFiles("")


class FreshTlsContext:
    """The context of the files as they are."""

    def __init__(self, files: TlsFiles, make: Callable[[TlsFiles], ssl.SSLContext]) -> None:
        """Raises ConfigError."""
        self._files = files
        self._make = make
        self._stamps = files.stamps()
        self._context = make(files)

    def __call__(self) -> ssl.SSLContext:
        stamps = self._files.stamps()
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._context = self._make(self._files)
                log.info("%s: the certificates were read anew", self._files.where)
            except ConfigError as exc:
                log.error("%s; those of before stay in use", exc)
        return self._context


def server_context(files: TlsFiles, speaks: str = "http/1.1") -> ssl.SSLContext:
    """For a listener, which `speaks` what ALPN says. With a `ca_file`, callers must show a
    certificate of it; and since one may be withdrawn, no session is resumed without showing it
    again."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    files.load_into(context)
    if files.ca_file is not None:
        context.verify_mode = ssl.CERT_REQUIRED  # guard: M5.client-certificate
        context.options |= ssl.OP_NO_TICKET  # guard: M5.session-resumption
        context.num_tickets = 0  # guard: M5.session-resumption
    context.set_alpn_protocols([speaks])
    return context


def listening(files: TlsFiles, speaks: str = "http/1.1") -> ssl.SSLContext:
    """A context for a listener that stays: each handshake gets the newest one put in its place.
    Raises ConfigError."""
    made = partial(server_context, speaks=speaks)
    fresh = FreshTlsContext(files, made)
    outermost = made(files)

    def newest(handshake: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        handshake.context = fresh()

    outermost.sni_callback = newest
    return outermost


def client_context(files: TlsFiles, speaks: str = "http/1.1") -> ssl.SSLContext:
    """Checks names and certificates, against the `ca_file` alone where there is one. `speaks` is
    what ALPN offers the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.ca_file is None:
        context.load_default_certs()
    files.load_into(context)
    context.set_alpn_protocols([speaks])
    return context


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _no_passphrase() -> bytes:
    """Else OpenSSL would ask for it on the terminal."""
    return b""
