"""Saves programs with their parameters, and loads them; no code in a file is run."""

from __future__ import annotations

from opwright.program.files.loading import LoadedProgram, load, load_program, load_tensors
from opwright.program.files.writing import save

__all__ = ["LoadedProgram", "load", "load_program", "load_tensors", "save"]
