"""Fits the language models of workers to the project's own labelled data, and measures them."""
