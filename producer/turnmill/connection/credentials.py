"""How a server is reached without a secret in a URL: passwords in files, certificates for TLS."""

from __future__ import annotations

import ssl
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from turnmill.contract.errors import InvalidInput
from turnmill.contract.sealing import Cipher


def read_secret(file: Path) -> str:
    """What the file holds, without blanks around it.

    Raises:
        InvalidInput: it cannot be read; names the file, never what is in it.
    """
    try:
        return file.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{file} cannot be read: {type(error).__name__}") from None


def load_cipher(path: str) -> Cipher | None:
    """The cipher at ``module:attribute``; None for ``""``.

    Raises:
        InvalidInput: there is none; content must not be stored in the clear by a typing error.
    """
    if not path:
        return None
    try:
        found = EntryPoint("cipher", path, "").load()
    except Exception as error:  # noqa: BLE001 - somebody else's module
        raise InvalidInput(f"cipher {path!r}: {type(error).__name__} on loading it") from None
    if not isinstance(found, Cipher):
        raise InvalidInput(f"cipher {path!r}: a {type(found).__name__}, not a turnmill.Cipher")
    return found


def with_password(url: str, file: Path | None) -> str:
    """The URL, or URLs with ``;`` between, with the file's password where none is given.

    Without a file, with an empty one, and for a database that is a file itself, the URL as it is.

    Raises:
        InvalidInput: the file cannot be read.
    """
    password = quote(read_secret(file), safe="") if file else ""
    if not url or not password or url.startswith("sqlite"):
        return url
    return ";".join(_with_password(each, password) for each in url.split(";"))


def _with_password(url: str, password: str) -> str:
    scheme, mark, rest = url.partition("://")
    end = min((at for at in map(rest.find, "/?#") if at >= 0), default=len(rest))
    user, at, host = rest[:end].rpartition("@")
    if not mark or ":" in user:
        return url
    return f"{scheme}{mark}{user}:{password}@{host if at else rest[:end]}{rest[end:]}"


def with_broker_tls(url: str) -> tuple[str, dict[str, Any] | None]:
    """A broker's URL for Celery, and its ``broker_use_ssl``; None where the URL asks for no TLS.

    The parameters are those of redis-py's URLs: ``ssl_ca_certs``, ``ssl_certfile`` and the others.
    The server's certificate is verified, and its host's name too, unless a parameter says
    otherwise: Celery by itself verifies nothing for ``rediss://``.
    """
    parts = [_without_tls(each) for each in url.split(";")]
    given, scheme = parts[0][1], url.partition("://")[0]
    if scheme not in ("rediss", "amqps") and not given:
        return url, None
    plain = ";".join(each for each, _ in parts)
    wanted = given.pop("ssl_cert_reqs", "required").lower().removeprefix("cert_")
    verified: dict[str, Any] = {"ssl_cert_reqs": _VERIFY.get(wanted, ssl.CERT_REQUIRED)}
    checks_host = given.pop("ssl_check_hostname", "true").lower() not in ("false", "no", "0", "n")
    checks_host = checks_host and verified["ssl_cert_reqs"] is not ssl.CERT_NONE
    options = verified | given
    if scheme.startswith("amqp"):
        # For None kombu puts in the name that the URL has.
        named = {"server_hostname": None} if checks_host else {}
        return plain, named | {key.removeprefix("ssl_"): value for key, value in options.items()}
    return plain, options | {"ssl_check_hostname": checks_host}


_VERIFY = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def _without_tls(url: str) -> tuple[str, dict[str, str]]:
    """The URL without its parameters for TLS, and these."""
    start, _, query = url.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    rest = urlencode([(key, value) for key, value in pairs if not key.startswith("ssl_")])
    tls = {key: value for key, value in pairs if key.startswith("ssl_")}
    return (f"{start}?{rest}" if rest else start), tls
