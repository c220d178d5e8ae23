"""Reads messages as units: sentences, calls and results, with the words and identifiers in them.

What the extractive summarizer chooses from, the ledger finds facts in and the quality score
compares. Pure and deterministic; any language, any content.
"""
