"""Planning a compaction: pure functions of a snapshot and a policy."""
