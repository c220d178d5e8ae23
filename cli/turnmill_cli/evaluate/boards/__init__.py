"""Boards: what a context still says after many compactions, one table for each question."""
