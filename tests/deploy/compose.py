"""docker-compose.yml as `docker compose` would see it, as far as that file goes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, Field

REPOSITORY: Final = Path(__file__).parents[2]
PATH: Final = REPOSITORY / "docker-compose.yml"
SECRETS: Final = "/run/secrets"
"""Where Compose mounts them."""
_EXPRESSION: Final = re.compile(r"\$(?:(\$)|\{(\w+)(?::-([^${}]*))?\})")


class Healthcheck(BaseModel):
    test: tuple[str, ...]

    def argv(self) -> list[str]:
        """What Docker executes in the container."""
        match self.test:
            case ("CMD-SHELL", script):
                return ["/bin/sh", "-c", script]
            case ("CMD", *argv):
                return argv
            case other:
                raise ValueError(other)


class EnvFile(BaseModel):
    path: str
    required: bool


class Service(BaseModel):
    command: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    env_file: tuple[EnvFile, ...] = ()
    environment: dict[str, str | None] = Field(default_factory=dict)
    healthcheck: Healthcheck
    image: str
    build: dict[str, str | dict[str, str]] | None = None
    container_name: str | None = None
    hostname: str | None = None
    ports: tuple[str, ...] = ()
    restart: str
    stop_grace_period: str
    volumes: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    networks: tuple[str, ...]
    mem_limit: str
    pids_limit: int
    cpus: float
    read_only: bool
    user: str | None = None
    cap_drop: tuple[str, ...]
    security_opt: tuple[str, ...]
    tmpfs: tuple[str, ...]

    def variables(self, host: Mapping[str, str]) -> dict[str, str]:
        """The container's environment: a name without a value is the host's, or absent."""
        resolved = {k: host.get(k) if v is None else v for k, v in self.environment.items()}
        return {name: value for name, value in resolved.items() if value is not None}

    def with_secrets_in(self, folder: Path) -> Service:
        """The service with its secrets in a folder that is here."""
        text = self.model_dump_json().replace(SECRETS, str(folder))
        return Service.model_validate_json(text)

    def option(self, name: str) -> str:
        """The value of `--name=value` in the command."""
        [value] = [part for part in self.command if part.startswith(f"--{name}=")]
        return value.partition("=")[2]


class Compose(BaseModel):
    services: dict[str, Service]
    volumes: dict[str, object]
    secrets: dict[str, dict[str, str]]
    networks: dict[str, dict[str, object] | None]

    def workers(self) -> dict[str, Service]:
        return {name: s for name, s in self.services.items() if "worker" in s.command}


def load(variables: Mapping[str, str]) -> Compose:
    """Parse, then interpolate values, like compose: keys and comments are left alone."""
    return Compose.model_validate(_interpolated(yaml.safe_load(PATH.read_text()), variables))


def _interpolated(node: Any, variables: Mapping[str, str]) -> Any:
    match node:
        case str():
            return interpolate(node, variables)
        case list():
            return [_interpolated(item, variables) for item in node]
        case dict():
            return {key: _interpolated(value, variables) for key, value in node.items()}
        case _:
            return node


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """Substitute `$$`, `${NAME}` and `${NAME:-default}`, all that the file uses."""
    if "$" in _EXPRESSION.sub("", text):
        raise ValueError(f"not an expression this reader knows: {text}")
    return _EXPRESSION.sub(
        lambda found: found[1] or variables.get(found[2]) or found[3] or "", text
    )
