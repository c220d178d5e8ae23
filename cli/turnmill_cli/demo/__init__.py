"""``turnmill demo``: scripted agents with real tools, through the whole pipeline."""
