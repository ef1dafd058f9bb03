"""Makes the module `plans` of the row tests importable for the call tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "translate"))
