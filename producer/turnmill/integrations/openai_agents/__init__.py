"""A session for openai-agents that never outgrows its model; needs ``turnmill[openai-agents]``."""

from turnmill.integrations.openai_agents.session import SessionCounts, TurnmillSession

__all__ = ["SessionCounts", "TurnmillSession"]
