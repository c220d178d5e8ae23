"""How people word rules; data."""
