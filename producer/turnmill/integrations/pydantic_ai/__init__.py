"""An endless chat for pydantic-ai agents; needs the extra ``turnmill[pydantic-ai]``."""

from turnmill.integrations.pydantic_ai.processor import (
    HistoryCounts,
    HistoryProcessor,
    history_processor,
)

__all__ = ["HistoryCounts", "HistoryProcessor", "history_processor"]
