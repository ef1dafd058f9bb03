"""losses."""

from __future__ import annotations

from typing import Final

from opwright_torch.translate import Rows

ROWS: Final = Rows()
