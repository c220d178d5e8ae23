"""How much each part of the quality score counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from turnmill.contract.errors import InvalidPolicy
from turnmill.contract.turns import explain

__all__ = ["QualityWeights"]


class QualityWeights(BaseModel):
    """What the parts of the quality score weigh against each other; only their ratios matter.

    Pair validity has no weight: a context a provider would refuse scores 0 whatever else is
    right with it.

    Attributes:
        facts: facts of the covered turns that can still be read.
        relevance: the same, for what the newest turns talk about.
        freshness: newest turns kept word for word, of those the policy wants.
        session: turns there are to each compaction; falls as a session thrashes.

    Raises:
        InvalidPolicy: a weight is negative or no number, or all are 0.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True
    )

    facts: float = Field(default=0.6, ge=0, allow_inf_nan=False)
    relevance: float = Field(default=0.2, ge=0, allow_inf_nan=False)
    freshness: float = Field(default=0.1, ge=0, allow_inf_nan=False)
    session: float = Field(default=0.1, ge=0, allow_inf_nan=False)

    if not TYPE_CHECKING:  # type checkers see the fields instead

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                told = explain(error, names_are_content=False)
                raise InvalidPolicy(f"quality_weights: {told}") from None

    @model_validator(mode="after")
    def _some_part_counts(self) -> Self:
        if self.facts + self.relevance + self.freshness + self.session <= 0:
            raise ValueError("one of facts, relevance, freshness, session must be above 0")
        return self
