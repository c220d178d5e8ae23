"""The workers' side of the session protocol in Redis."""
