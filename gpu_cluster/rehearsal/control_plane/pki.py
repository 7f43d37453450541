"""Keys, certificates and tokens of a rehearsal's control plane, new for every run."""

import datetime
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import trustme

VALID = datetime.timedelta(days=30)
"""Long enough for an environment that is kept, short enough that a leaked key is worthless."""
SERVICE_ADDRESS = "10.96.0.1"
"""Of the Service `kubernetes`: the first address of the API server's range for Services."""
NAMES = ("127.0.0.1", SERVICE_ADDRESS, "localhost", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pki:
    """The files' paths, and the only user's token."""

    ca: Path
    server_certificate: Path
    server_key: Path
    service_account_key: Path
    tokens: Path
    """The API server's static token file: one user, `rehearsal`, in group `system:masters`."""
    token: str
    token_file: Path

    @property
    def ca_certificate(self) -> bytes:
        return self.ca.read_bytes()


def make_pki(folder: Path) -> Pki:
    """Writes all files into `folder`, readable by this user only."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    until = datetime.datetime.now(datetime.UTC) + VALID
    authority = trustme.CA()  # its key is never written
    server, service_accounts = (
        authority.issue_cert(*NAMES, common_name=name, not_after=until)
        for name in ("kube-apiserver", "service-accounts")
    )
    token = secrets.token_urlsafe(32)
    users = f"{token},rehearsal,rehearsal,system:masters\n"
    return Pki(
        ca=_write(folder / "ca.crt", authority.cert_pem.bytes()),
        server_certificate=_write(folder / "server.crt", server.cert_chain_pems[0].bytes()),
        server_key=_write(folder / "server.key", server.private_key_pem.bytes()),
        service_account_key=_write(
            folder / "service-account.key", service_accounts.private_key_pem.bytes()
        ),
        tokens=_write(folder / "tokens.csv", users.encode()),
        token=token,
        token_file=_write(folder / "token", token.encode()),
    )


def _write(path: Path, content: bytes) -> Path:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return path
