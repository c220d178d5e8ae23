"""What survives compaction: the metrics, planted facts and costs behind ``turnmill evaluate``."""
