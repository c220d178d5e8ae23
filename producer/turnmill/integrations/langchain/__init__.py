"""LangChain agents with a compacted context; needs the extra ``turnmill[langchain]``."""

from turnmill.integrations.langchain.chat_history import ContextChatMessageHistory
from turnmill.integrations.langchain.middleware import ContextMiddleware

__all__ = ["ContextChatMessageHistory", "ContextMiddleware"]
