"""Sessions for google-adk that never outgrow a model; needs the extra ``turnmill[google-adk]``."""

from turnmill.integrations.google_adk.plugin import ContextCounts, ContextPlugin
from turnmill.integrations.google_adk.sessions import TurnmillSessionService

__all__ = ["ContextCounts", "ContextPlugin", "TurnmillSessionService"]
