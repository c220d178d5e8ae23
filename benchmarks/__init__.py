"""Benchmarks: ratios measured in one run, because absolute times drift on shared machines."""
