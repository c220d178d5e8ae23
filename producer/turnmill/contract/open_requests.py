"""An open request: what the user asked an agent to do, word for word."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from turnmill.contract.names import Seq

__all__ = ["OpenRequest"]


class OpenRequest(BaseModel):
    """What the user asked for, or added to it, in one turn.

    Attributes:
        seq: the turn it was said in.
        text: as the user wrote it; where it is too long, whole lines of it, and marks for the rest.
        first: the session began with it.
        earlier: the agent answered it, and the user asked for something else since.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="allow", hide_input_in_errors=True
    )

    seq: Seq
    text: str
    first: bool = False
    earlier: bool = False
