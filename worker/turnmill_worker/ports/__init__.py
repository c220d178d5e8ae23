"""What the pipeline needs from outside: protocols, and the values that pass through them."""
