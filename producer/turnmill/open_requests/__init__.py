"""Open requests: what the user asked an agent to do, found and kept word for word."""
