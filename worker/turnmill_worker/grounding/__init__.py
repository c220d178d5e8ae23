"""Grounding: finds the memories of a namespace that help with a question."""
