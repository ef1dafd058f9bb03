"""Makes the cases of the standard operators, and translated graphs, importable for these tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "std" / "operators"))
sys.path.insert(0, str(Path(__file__).parents[1] / "translate"))
sys.path.insert(0, str(Path(__file__).parent))
