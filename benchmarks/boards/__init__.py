"""Boards: what a context still says after many compactions."""
