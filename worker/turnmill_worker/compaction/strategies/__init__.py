"""The strategies: each a pure function from a snapshot to a plan."""
