"""Reads messages as units: sentences, calls and results, with the words and identifiers in them.

The extractive summarizer chooses from the units, the ledger finds facts in them, and the quality
score compares them. Pure and deterministic; any language, any content.
"""
