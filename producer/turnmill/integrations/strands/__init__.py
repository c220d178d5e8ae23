"""An endless chat for Strands agents; needs the extra ``turnmill[strands]``."""

from turnmill.integrations.strands.manager import ManagementCounts, TurnmillConversationManager

__all__ = ["ManagementCounts", "TurnmillConversationManager"]
