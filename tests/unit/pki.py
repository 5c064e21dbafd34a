"""An authority that issues certificates for a test, and clients that show them."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pair:
    cert: Path
    key: Path

    def replace(self, other: Pair) -> None:
        """As certbot, cert-manager and the like do: new files in the place of the old ones."""
        for mine, its in ((self.cert, other.cert), (self.key, other.key)):
            part = mine.with_suffix(".part")
            part.write_bytes(its.read_bytes())
            part.replace(mine)


class Authority:
    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        certificate = (
            _begun(subject, subject, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self._subject = subject
        self._count = 0

    def issue(self, *names: str) -> Pair:
        """With these URIs, addresses and DNS names."""
        self._count += 1
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _begun(_named("leaf"), self._subject, key)
            .add_extension(x509.SubjectAlternativeName([_general(n) for n in names]), False)
            .sign(self._key, hashes.SHA256())
        )
        at = self._folder / f"{self._name}-{self._count}"
        cert_file, key_file = at.with_suffix(".pem"), at.with_suffix(".key")
        cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return Pair(cert_file, key_file)


def client(trusts: Authority, shows: Pair | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(trusts.file)
    if shows is not None:
        context.load_cert_chain(shows.cert, shows.key)
    return context


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )


def _general(name: str) -> x509.GeneralName:
    if "://" in name:
        return x509.UniformResourceIdentifier(name)
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
