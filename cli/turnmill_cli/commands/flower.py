"""``turnmill flower``: Flower, with turnmill's configuration."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from turnmill_cli.local.children import FLOWER_PORT, check_installed, check_port, flower_command
from turnmill_cli.options import (
    BrokerPasswordFile,
    BrokerUrl,
    RedisPasswordFile,
    RedisUrl,
    redis_here,
)
from turnmill_cli.output import WrongUsage

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class FlowerOptions:
    """Which broker it looks at, and who may look."""

    redis_url: RedisUrl = ""
    redis_password_file: RedisPasswordFile = None
    broker_url: BrokerUrl = ""
    broker_password_file: BrokerPasswordFile = None
    address: Annotated[str, typer.Option(envvar="FLOWER_ADDRESS", help="Where it listens.")] = (
        LOOPBACK[0]
    )
    port: Annotated[int, typer.Option(min=1, max=65535, envvar="FLOWER_PORT", help="Its port.")] = (
        FLOWER_PORT
    )
    basic_auth_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="FLOWER_BASIC_AUTH_FILE",
            help="A file with user:password in each line: who may look.",
            show_default=False,
        ),
    ] = None

    @property
    def is_closed(self) -> bool:
        """Whether only this machine reaches it, or only who has a password."""
        named = {"FLOWER_BASIC_AUTH", "FLOWER_AUTH"} & os.environ.keys()
        return self.address in LOOPBACK or bool(self.basic_auth_file or named)


def flower(options: FlowerOptions) -> None:
    """Run Flower, which shows the workers and their jobs, until Ctrl-C.

    It listens on this machine alone unless --address says more; then it needs --basic-auth-file.
    What is tried again is RETRY, and what came to nothing is FAILURE; result:after finds summaries
    that another had to write.
    Any other option of Flower is a variable: FLOWER_READ_ONLY=false, for example.
    """
    check_installed(with_flower=True)
    if not options.is_closed:
        where = f"--address {options.address}"
        raise WrongUsage(f"{where} shows sessions to others: give --basic-auth-file")
    check_port(options.port)
    given = {
        "TURNMILL_REDIS_URL": options.redis_url or redis_here(),
        "TURNMILL_REDIS_PASSWORD_FILE": options.redis_password_file,
        "TURNMILL_BROKER_URL": options.broker_url,
        "TURNMILL_BROKER_PASSWORD_FILE": options.broker_password_file,
        "FLOWER_BASIC_AUTH_FILE": options.basic_auth_file,
    }
    command = flower_command(address=options.address, port=options.port)
    here = {name: str(value) for name, value in given.items() if value}
    os.execve(command[0], command, {**os.environ, **here})  # noqa: S606 - no shell is wanted
