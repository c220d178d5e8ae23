"""The workers' Redis scripts, one file per operation."""
