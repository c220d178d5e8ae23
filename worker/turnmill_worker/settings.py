"""The worker process's settings: the environment, read once."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

__all__ = ["Settings"]


class Settings(BaseSettings):
    """Read from variables named ``TURNMILL_<FIELD>``.

    Attributes:
        redis_url: the state store.
        broker_url: the Celery broker; the state store when empty.
        sweep_interval_s: seconds between two sweeps, over all workers together.
        stale_after_s: a session waiting longer than this is hinted again.
        lease_s: how long a dead worker's session stays untouched.
        log_json: log lines as JSON instead of for people.
    """

    model_config = SettingsConfigDict(env_prefix="TURNMILL_", frozen=True, extra="ignore")

    redis_url: str = "redis://localhost:6379/0"
    broker_url: str = ""
    sweep_interval_s: float = Field(default=1.0, gt=0)
    stale_after_s: float = Field(default=2.0, gt=0)
    lease_s: float = Field(default=30.0, ge=1)
    log_json: bool = False

    @property
    def broker(self) -> str:
        """The broker's URL."""
        return self.broker_url or self.redis_url
