"""The stages every turn passes: estimate, decide, summarize, draft, commit, archive."""
