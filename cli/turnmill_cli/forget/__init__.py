"""``turnmill forget``: remove a session everywhere, and prove it."""
