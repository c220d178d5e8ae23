"""The ledger: facts kept word for word beside the summary."""
