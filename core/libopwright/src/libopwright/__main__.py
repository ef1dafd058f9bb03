"""Prints the folder that has the library and the header: ``python -m libopwright``."""

from __future__ import annotations

import sys

from libopwright import get_prefix

sys.stdout.write(f"{get_prefix()}\n")
