"""The test suite; the subfolders say what a test needs and what it proves."""
