"""A real model in development: how to get one, and what it adds to contexts."""
