"""The commands that are one module each."""
