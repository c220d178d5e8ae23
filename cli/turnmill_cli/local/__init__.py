"""Redis, workers and Flower as one process tree: what ``turnmill up`` is made of."""
