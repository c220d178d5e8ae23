"""A memory for LlamaIndex agents and chat engines; needs the extra ``turnmill[llama-index]``."""

from turnmill.integrations.llama_index.memory import ContextMemory

__all__ = ["ContextMemory"]
