"""Runs a command that ends with the process that started it, however that one ends (on Linux).

Run by path, ``python tether.py PARENT SIGNAL LOCK COMMAND...``, so that it starts in milliseconds:
it imports nothing of turnmill, asks the kernel for SIGNAL when PARENT dies, and becomes COMMAND.
With a LOCK file it first waits until nobody else holds that, and COMMAND holds it while it runs.

The kernel means the *thread* that forked, so whoever starts tethered commands does it from a
thread that lives as long as it means to: ``turnmill up`` from its main thread.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1


def tether(parent: int, signal_number: int) -> None:
    """Ask for the signal when the parent dies; exit at once when it is dead already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"process {parent} ended before its child began")


def hold(path: str) -> None:
    """Wait for the lock on the file and keep it beyond exec, as long as this process lives."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.set_inheritable(descriptor, True)


def main(words: Sequence[str]) -> None:
    """Become the command in ``words``, tethered."""
    parent, signal_number, lock, *command = words
    tether(int(parent), int(signal_number))
    if lock:
        hold(lock)
    os.execv(command[0], command)  # noqa: S606 - the words are turnmill's own


if __name__ == "__main__":
    main(sys.argv[1:])
