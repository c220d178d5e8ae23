"""The worker process's settings: the environment, read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from turnmill.connection.credentials import read_secret, with_password
from turnmill.connection.urls import Broker, celery_broker, store_url
from turnmill_worker.errors import InvalidSettings

_PATHS = ("_file", "tokenizer_dir")


class Settings(BaseSettings):
    """Read from variables named ``TURNMILL_<FIELD>``.

    Attributes:
        redis_url: URL of the state store: ``redis://host:port/db``,
            ``redis+sentinel://host:port,host:port/master`` or
            ``redis+cluster://host:port,host:port``; ``rediss`` in place of ``redis`` for TLS.
        redis_password_file: a file with its password.
        broker_url: URL of the Celery broker; the state store when empty, if that is no Cluster.
        broker_password_file: a file with its password.
        sweep_interval_s: seconds between two sweeps, over all workers together.
        quotas_file: a TOML file with the namespaces' quotas, read again when it changes.
        stale_after_s: seconds a session may wait before it is hinted again.
        lease_s: seconds for which the session of a worker that died stays untouched.
        data_dir: the folder of the archive when that is a SQLite file.
        archive_url: the archive's database, ``sqlite:////path/to/file.db`` or
            ``postgresql://user@host/name``; when empty, a SQLite file in the data folder; with
            ``none`` covered turns stay in Redis.
        archive_password_file: a file with its password.
        archive_replicas: replicas of the state store that must have a turn before it is archived.
        template_dirs: folders with managed templates, separated as PATH is, searched in order.
        tokenizer_dir: the folder with ``NAME.json`` for each ``Policy(encoding="file:NAME")``.
        embeddings_url: an OpenAI-compatible endpoint that helps to find memories.
        embeddings_model: the model to ask for embeddings.
        embeddings_key: the key of the endpoint for embeddings.
        embeddings_key_file: a file with that key.
        model_url: the OpenAI-compatible endpoint of ``Policy(summarizer="openai")``.
        model: the model to ask when a policy names none.
        model_key: the key of that endpoint.
        model_key_file: a file with that key.
        model_api: ``chat`` for Chat Completions, ``responses`` for the Responses API.
        model_window_tokens: what the model reads at once; longer input is summarized in parts.
            What the endpoint tells comes before the default.
        model_requests_per_minute, model_tokens_per_minute: what all workers together may ask of
            one model at one endpoint.
        model_concurrency: calls that all workers together may have under way at the endpoint.
        model_prices: a file of prices that override list prices.
        batch_first_look_s: seconds until a batch (a policy's ``batch``) is looked for first.
        batch_longest_pause_s: most seconds between two looks; each pause is as long as all before
            it together.
        batch_deadline_s: seconds after which a batch is given up, and the summary asked for live.
        redactor: takes secrets out of all text before it leaves: ``built-in``, or the name of a
            ``turnmill.redactors`` entry point.
        cipher: what encrypts content before it is stored, as ``module:attribute``; agents and
            commands need the same; nothing is encrypted when empty.
        metrics_port: a worker's, or the server's, port for ``/metrics``, ``/healthz`` and
            ``/readyz``; none when 0.
        metrics_host: the address it listens on.
        metrics_namespaces: which are told apart, separated by commas; ``*`` for all.
        log_json: writes every log line as JSON instead of as text for people.
    """

    model_config = SettingsConfigDict(env_prefix="TURNMILL_", frozen=True, extra="ignore")

    redis_url: str = "redis://localhost:6379/0"
    redis_password_file: Path | None = None
    broker_url: str = ""
    broker_password_file: Path | None = None
    sweep_interval_s: float = Field(default=1.0, gt=0)
    quotas_file: Path | None = None
    stale_after_s: float = Field(default=2.0, gt=0)
    lease_s: float = Field(default=30.0, ge=1)
    data_dir: Path = Path("~/.local/share/turnmill")
    archive_url: str = ""
    archive_password_file: Path | None = None
    archive_replicas: int = Field(default=0, ge=0)
    template_dirs: str = ""
    tokenizer_dir: Path | None = None
    embeddings_url: str = ""
    embeddings_model: str = "text-embedding-3-small"
    embeddings_key: SecretStr = SecretStr("")
    embeddings_key_file: Path | None = None
    model_url: str = "https://api.openai.com/v1"
    model: str = "gpt-5-mini"
    model_key: SecretStr = SecretStr("")
    model_key_file: Path | None = None
    model_api: Literal["chat", "responses"] = "chat"
    model_window_tokens: int = Field(default=128_000, ge=4096)
    model_requests_per_minute: int = Field(default=0, ge=0)
    model_tokens_per_minute: int = Field(default=0, ge=0)
    model_concurrency: int = Field(default=0, ge=0)
    model_prices: Path | None = None
    batch_first_look_s: float = Field(default=30.0, gt=0)
    batch_longest_pause_s: float = Field(default=600.0, gt=0)
    batch_deadline_s: float = Field(default=86_400.0, gt=0, le=86_400)
    redactor: str = ""
    cipher: str = ""
    metrics_port: int = Field(default=0, ge=0, le=65_535)
    metrics_host: str = "127.0.0.1"
    metrics_namespaces: str = ""
    log_json: bool = False

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_no_file(cls, value: Any, field: ValidationInfo) -> Any:
        # As for texts: what passes variables on, such as Compose, passes empty ones on, too.
        return None if value == "" and str(field.field_name).endswith(_PATHS) else value

    @field_validator("redis_url")
    @classmethod
    def _is_a_store(cls, url: str) -> str:
        store_url(url)
        return url

    @field_validator("redis_password_file", "broker_password_file", "archive_password_file")
    @classmethod
    def _can_be_read(cls, file: Path | None) -> Path | None:
        if file:
            read_secret(file)
        return file

    @model_validator(mode="after")
    def _has_a_broker(self) -> Self:
        _ = self.broker
        return self

    @property
    def store(self) -> str:
        """The state store's URL, with its password."""
        return with_password(self.redis_url, self.redis_password_file)

    @property
    def broker(self) -> Broker:
        """The broker as Celery is told of it, with its password."""
        if not self.broker_url:
            return celery_broker(self.store)
        return celery_broker(with_password(self.broker_url, self.broker_password_file))

    @property
    def archive(self) -> str:
        """The archive's URL, with its password, or ``""`` for none."""
        if self.archive_url == "none":
            return ""
        if self.archive_url:
            return with_password(self.archive_url, self.archive_password_file)
        return f"sqlite:///{self.data_dir.expanduser().absolute()}/archive.db"


def load_settings() -> Settings:
    """The settings in the environment.

    Raises:
        InvalidSettings: a variable has a value it must not have; names it, never the value.
    """
    try:
        return Settings()
    except ValidationError as error:
        found = (
            f"TURNMILL_{problem['loc'][0] if problem['loc'] else 'BROKER_URL'}".upper()
            + f": {problem['msg']}"
            for problem in error.errors()
        )
        raise InvalidSettings("; ".join(found)) from None
