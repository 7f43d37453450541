"""Keys, certificates and tokens of one rehearsal's control plane, made afresh for every run."""

import datetime
import ipaddress
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

VALID = datetime.timedelta(days=30)
"""Long enough for an environment that is kept running, short enough to be worthless when found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pki:
    """Where the files lie, and the only user's token."""

    ca: Path
    server_certificate: Path
    server_key: Path
    service_account_key: Path
    tokens: Path
    """The API server's static token file: one user, `rehearsal`, in group `system:masters`."""
    token: str
    token_file: Path
    etcd_ca: Path
    """Of etcd alone: who has a certificate of it reads and writes every object, past the API
    server, whatever that would refuse."""
    etcd_certificate: Path
    """etcd's own and, as a client, the API server's."""
    etcd_key: Path

    @property
    def ca_certificate(self) -> bytes:
        return self.ca.read_bytes()


def make_pki(folder: Path) -> Pki:
    """Writes everything into `folder`, readable by this user alone."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    ca_key, server_key, service_account_key, etcd_ca_key, etcd_key = (
        ec.generate_private_key(ec.SECP256R1()) for _ in range(5)
    )
    ca = _certificate("rehearsal-ca", ca_key.public_key(), "rehearsal-ca", ca_key, authority=True)
    server = _certificate("kube-apiserver", server_key.public_key(), "rehearsal-ca", ca_key)
    etcd_ca = _certificate(
        "etcd-ca", etcd_ca_key.public_key(), "etcd-ca", etcd_ca_key, authority=True
    )
    etcd = _certificate("etcd", etcd_key.public_key(), "etcd-ca", etcd_ca_key)
    token = secrets.token_urlsafe(32)
    return Pki(
        ca=_write(folder / "ca.crt", _pem(ca)),
        server_certificate=_write(folder / "server.crt", _pem(server)),
        server_key=_write(folder / "server.key", _key_pem(server_key)),
        service_account_key=_write(folder / "service-account.key", _key_pem(service_account_key)),
        tokens=_write(
            folder / "tokens.csv", f"{token},rehearsal,rehearsal,system:masters\n".encode()
        ),
        token=token,
        token_file=_write(folder / "token", token.encode()),
        etcd_ca=_write(folder / "etcd-ca.crt", _pem(etcd_ca)),
        etcd_certificate=_write(folder / "etcd.crt", _pem(etcd)),
        etcd_key=_write(folder / "etcd.key", _key_pem(etcd_key)),
    )


def _certificate(
    name: str,
    key: ec.EllipticCurvePublicKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    authority: bool = False,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            # Python 3.13 and later refuse a chain without this.
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    if authority:
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True)
    else:
        names = [
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.DNSName("localhost"),
            x509.DNSName("kubernetes.default.svc"),
        ]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _write(path: Path, content: bytes) -> Path:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return path
