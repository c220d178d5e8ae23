"""``turnmill replay``: recorded conversations through the pipeline, every context checked."""
