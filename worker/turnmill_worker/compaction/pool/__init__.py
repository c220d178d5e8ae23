"""The pool: original passages of covered turns, kept beside the facts.

Every summary is chosen from it and from the turns that are newly covered, never from the summary
before: so a hundred compactions lose no more words than one. Its size is constant.
"""
