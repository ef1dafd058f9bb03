"""Data to learn from: what ships with the package, and readers of files."""

from __future__ import annotations

from . import digits, idx
from .dataset import Dataset

__all__ = ["Dataset", "digits", "idx"]
