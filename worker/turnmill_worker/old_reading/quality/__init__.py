"""The quality score a compaction gets before it is committed."""
