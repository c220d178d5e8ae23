"""Boards of what contexts keep of regular agent work, made from seeds."""
