"""What agents ask workers for: roll back, export, ground, remember."""
