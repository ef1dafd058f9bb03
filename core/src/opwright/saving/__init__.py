"""Saving programs with their parameters, and loading them; nothing in a file is run."""

from __future__ import annotations

from opwright.saving.loading import LoadedProgram, load, load_program
from opwright.saving.writing import save

__all__ = ["LoadedProgram", "load", "load_program", "save"]
