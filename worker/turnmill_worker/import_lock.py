"""The lock under which something heavy is imported on first use, beside other threads.

``openai`` takes half a second that workers without a model need not spend. It imports parts of
itself as they are used, and two threads doing so at once have met half-made modules.
"""

from __future__ import annotations

import threading
from typing import Final

__all__ = ["IMPORTING"]

IMPORTING: Final = threading.RLock()
