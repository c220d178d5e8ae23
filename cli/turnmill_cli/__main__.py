"""``python -m turnmill_cli`` is ``turnmill``."""

from turnmill_cli import main

if __name__ == "__main__":
    main()
