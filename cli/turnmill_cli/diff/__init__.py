"""``turnmill diff``: what changed between two contexts of a session."""
