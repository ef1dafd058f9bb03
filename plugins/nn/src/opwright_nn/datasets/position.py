"""The fields of a saved position in batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opwright_nn import fields

POSITION_FIELDS: Final[Mapping[str, fields.Rule]] = {
    "epoch": fields.whole(),
    "batch": fields.whole(),
    "size": fields.whole(1),
    "seed": fields.optional(fields.whole(at_most=1 << 1024)),
    "shuffle": fields.flag,
    "drop_last": fields.flag,
    "arrays": fields.listed(fields.text),
    "order_crc32": fields.optional(fields.whole(at_most=2**32 - 1)),
}
"""The fields of a position, and the rule of each."""

check_position: Final = fields.fields(POSITION_FIELDS)
"""The rule for a position in a file; `Batches.restore` compares it with the batches."""
