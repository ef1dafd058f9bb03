"""Lets tests of calls import the plans of the tests of rows."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "translate"))
