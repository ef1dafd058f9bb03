"""The standard operators of opwright; ``plugin`` is the table of what is here."""

from __future__ import annotations

__version__ = "0.1.0"
