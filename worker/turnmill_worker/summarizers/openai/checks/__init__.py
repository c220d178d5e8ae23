"""Whether a model's answer may stand for a conversation."""
