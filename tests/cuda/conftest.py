"""Lets the files of these folders import each other and the operator table."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOMS = [HERE / name for name in ("cudnn", "device", "kernels")]
for folder in (HERE, *ROOMS, HERE.parent, HERE.parent / "operators"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
