"""Images: what they cost, how large they are, and how a turn refers to one kept elsewhere."""
