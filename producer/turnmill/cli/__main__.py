"""``python -m turnmill.cli`` is ``turnmill``."""

from turnmill.cli import main

if __name__ == "__main__":
    main()
