"""History for Microsoft's agent-framework; needs the extra ``turnmill[agent-framework]``."""

from turnmill.integrations.agent_framework.provider import HistoryCounts, TurnmillHistoryProvider

__all__ = ["HistoryCounts", "TurnmillHistoryProvider"]
