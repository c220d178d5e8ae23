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
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class MissingVariableError(Exception):
    """Compose would stop here: a `${NAME:?message}` without a value."""


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
    command: tuple[str, ...]
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
    """Substitute `$$`, `${NAME}`, `${NAME:-default}` and `${NAME:?message}`, which may nest."""
    before, dollar, rest = text.partition("$")
    if not dollar:
        return before
    if rest.startswith("$"):
        return f"{before}${interpolate(rest[1:], variables)}"
    end = _closing_brace(rest)
    return before + _expand(rest[1:end], variables) + interpolate(rest[end + 1 :], variables)


def _closing_brace(text: str) -> int:
    depth = 0
    for index, character in enumerate(text if text.startswith("{") else ""):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return index
    raise ValueError(f"not an expression this reader knows: ${text}")


def _expand(expression: str, variables: Mapping[str, str]) -> str:
    name = _NAME.match(expression)
    if name is None:
        raise ValueError(f"not a variable name this reader knows: {expression}")
    value = variables.get(name[0], "")
    match expression[name.end() : name.end() + 2], expression[name.end() + 2 :]:
        case "", _:
            return value
        case ":-", default:
            return value or interpolate(default, variables)
        case ":?", message if not value:
            raise MissingVariableError(f"{name[0]}: {message}")
        case ":?", _:
            return value
        case operator, _:
            raise ValueError(f"an operator this reader does not know: {operator}")
