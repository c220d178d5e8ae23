"""Flower's configuration in a container: who may look, from a file that is a secret."""

import os
import sys
from pathlib import Path

basic_auth = Path(os.environ["FLOWER_BASIC_AUTH_FILE"]).read_text(encoding="utf-8").split()
if not basic_auth or not all(":" in each.strip(":") for each in basic_auth):
    sys.exit("flower_basic_auth: write user:password into it; Flower does not start open")
