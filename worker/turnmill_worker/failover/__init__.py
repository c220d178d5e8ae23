"""Redis went back in time: noticing it, and keeping what it lost.

A promoted replica or a restored backup has an earlier state. What the archive has beyond it is set
apart as a branch (``archive.lost_branches``), so that nothing is silently replaced; ``noticing``
compares both, ``store.redis_runs`` says when that is due.
"""
