"""The producer's Redis scripts, one file per operation."""
