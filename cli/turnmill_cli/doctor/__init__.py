"""``turnmill doctor``: what is wrong, and what to do about it."""
