"""Saves programs with their parameters, and loads them; no code in a file is run."""

from __future__ import annotations

from opwright.program.files.opening import SavedProgram, load_tensors, read_alone, read_whole
from opwright.program.files.writing import save

__all__ = ["SavedProgram", "load_tensors", "read_alone", "read_whole", "save"]
