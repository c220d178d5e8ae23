"""Rules: what a user lays down for the rest of a conversation, found word for word."""
