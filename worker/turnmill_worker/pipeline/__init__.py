"""The stages every turn passes: estimate, decide, compact, summarize, draft, archive.

``compact`` has what each task does with a session, ``ladder`` how a plan becomes a commit, rung
after rung; ``force`` is a summarization somebody asked for, ``batch`` one that takes its time.
"""
