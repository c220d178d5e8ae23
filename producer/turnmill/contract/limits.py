"""The absolute limits of one session."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict

__all__ = ["Limits"]


class Limits(BaseModel):
    """Absolute token limits of one session, its system prompt and tools counted in.

    Attributes:
        hard: a context above it may be refused by the model, so a read projects.
        soft: a context above it is compacted in the background.
        target: what a compaction aims for.
        room: tokens between the system prompt with the tools and ``hard``.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    hard: int
    soft: int
    target: int
    room: int

    @property
    def urgent(self) -> int:
        """Half way from soft to hard: above it there is no time to wait for a better cut."""
        return (self.soft + self.hard) // 2

    def share_left(self, tokens: int) -> float:
        """The share of the room that a context of so many tokens leaves; may be negative."""
        return (self.hard - tokens) / max(self.room, 1)
