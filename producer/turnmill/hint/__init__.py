"""Hints: telling workers that a session has something new."""
