"""turnmill's workers: estimate tokens, decide, compact, summarize, commit."""
