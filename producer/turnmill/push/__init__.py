"""Pushing: what an agent hands in, what quotas admit, and what a client keeps of it."""
