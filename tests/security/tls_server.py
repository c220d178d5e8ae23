"""A redis-server that speaks TLS only, and asks clients for certificates."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import pytest

from tests.deploy.processes import clean_environment, redis_servers, running
from tests.processes import wait_until
from tests.security.certificates import Authority, Signed
from turnmill.connection.embedded import free_port

__all__ = ["TlsRedis", "tls_redis"]


class TlsRedis(NamedTuple):
    """A running server; ``client`` is a certificate that it accepts."""

    port: int
    authority: Authority
    client: Signed
    password: str

    def url(
        self,
        *,
        authority: Authority | None = None,
        client: Signed | None = None,
        host: str = "127.0.0.1",
        **more: str,
    ) -> str:
        """A URL that trusts an authority, by default the right one, and shows a certificate."""
        asked = {"ssl_ca_certs": str((authority or self.authority).file)} | more
        if client:
            asked |= {"ssl_certfile": str(client.certificate), "ssl_keyfile": str(client.key)}
        return f"rediss://{host}:{self.port}/0?{urlencode(asked)}"

    @property
    def good_url(self) -> str:
        """A URL with all that is needed but the password."""
        return self.url(client=self.client)


@contextmanager
def tls_redis(
    folder: Path, *, certificate: Signed | None = None, authority: Authority | None = None
) -> Iterator[TlsRedis]:
    """The server, with a certificate of its authority unless one is given."""
    authority = authority or Authority(folder / "certificates")
    server = certificate or authority.sign("server")
    made = TlsRedis(free_port(), authority, authority.sign("client"), "pw-of-tls")
    options = {
        "port": "0", "tls-port": str(made.port), "bind": "127.0.0.1", "save": "",
        "tls-cert-file": str(server.certificate), "tls-key-file": str(server.key),
        "tls-ca-cert-file": str(authority.file), "tls-auth-clients": "yes",
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "password.conf"
    settings.write_text(f"requirepass {made.password}\n")
    command = [_server(), str(settings), *words]
    with running(command, environment=clean_environment(), folder=folder / "redis") as program:
        wait_until(
            lambda: "Ready to accept connections" in program.output(),
            within_s=10,
            what=program.output,
        )
        yield made


@cache
def _server() -> str:
    for server in redis_servers().values():
        # One that knows the directive finds that this is no port.
        if b"Bad directive" not in _said([server, "--port", "0", "--tls-port", "x"]):
            return server
    pytest.skip("no redis-server here is built with TLS")


def _said(command: list[str]) -> bytes:
    done = subprocess.run(command, capture_output=True, timeout=10, check=False)
    return done.stdout + done.stderr
