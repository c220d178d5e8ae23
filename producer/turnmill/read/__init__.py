"""Reading: what is stored becomes the context that an agent sends to its model."""
