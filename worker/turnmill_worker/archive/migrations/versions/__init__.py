"""One module per revision, in order; each spells its tables itself, so that it never changes."""
