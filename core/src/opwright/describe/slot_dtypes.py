"""Where the dtype of a slot comes from: another slot, an attribute, or a list of dtypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from opwright.describe.dtypes import FLOAT_DTYPES
from opwright.describe.meta import Meta
from opwright.describe.op_proto import OpProto, VarProto

DtypeSource: TypeAlias = tuple[int, str | None, str | None]
"""The place of an input slot or -1, the name of an attribute, a dtype; at most one of them."""


def find_source(slot: VarProto, places: Mapping[str, int]) -> DtypeSource:
    """Return where the dtype of a slot comes from; `places` are the positions of input slots."""
    source = slot.same_as
    if source is None:
        return -1, None, slot.dtypes[0] if len(slot.dtypes) == 1 else None
    return (places[source], None, None) if source in places else (-1, source, None)


def read_source(
    source: DtypeSource, inputs: Sequence[Sequence[Meta]], attrs: Mapping[str, Any]
) -> str | None:
    """Return the dtype that a source gives for these inputs and attributes; None for none."""
    index, attr, dtype = source
    if index >= 0:
        return inputs[index][0].dtype if inputs[index] else None
    return dtype if attr is None else attrs.get(attr)


def can_be_float(proto: OpProto, slot: VarProto) -> bool:
    """Tell whether a slot can hold floats, and so have a gradient."""
    seen = set()
    while slot.same_as is not None and slot.name not in seen and not slot.dtypes:
        seen.add(slot.name)
        attr = proto.attr_protos.get(slot.same_as)
        if attr is not None:
            return any(dtype in FLOAT_DTYPES for dtype in attr.allowed)
        slot = proto.input(slot.same_as)
    return not slot.dtypes or any(dtype in FLOAT_DTYPES for dtype in slot.dtypes)
