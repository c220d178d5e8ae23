"""An authority of a test's own, and what it signs."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

__all__ = ["Authority", "Signed"]


class Signed(NamedTuple):
    """Files in PEM."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates into a folder; ``file`` is its own."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.pem"
        usage = x509.KeyUsage(*(at in (5, 6) for at in range(9)))  # signs certificates and lists
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        made = self._builder(self._name, self._key.public_key(), days=30)
        made = made.add_extension(constraints, critical=True).add_extension(usage, critical=True)
        self.file.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def sign(self, name: str, *, address: str = "127.0.0.1", days: int = 30) -> Signed:
        """A certificate for the address; one that has expired if ``days`` is negative."""
        key = ec.generate_private_key(ec.SECP256R1())
        found = Signed(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = self._builder(_name(name), key.public_key(), days=days)
        made = made.add_extension(names, critical=False).add_extension(issuer, critical=False)
        pem = made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        found.certificate.write_bytes(pem)
        found.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return found

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, days: int
    ) -> x509.CertificateBuilder:
        end = datetime.now(UTC) + timedelta(days=days)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(end, datetime.now(UTC)) - timedelta(days=1))
            .not_valid_after(end)
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
