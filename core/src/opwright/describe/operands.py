"""Shape operands: variables in place of numbers in attributes, with values known in lowering.

An operator is written with names instead of numbers, ``shape=["n", 8]``. The operator keeps the
names in an input slot that is named like the attribute. The attribute contains marks in place of
the variables' elements: `FROM_INPUT` for the first element, `MORE` for later elements of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from opwright.describe.attribute_values import INT_MIN, AttrType
from opwright.describe.dtypes import INT_DTYPES, is_float
from opwright.describe.meta import Meta
from opwright.errors import DtypeError, ProgramError, ShapeError

if TYPE_CHECKING:
    from opwright.describe.op_proto import AttrProto, OpProto

FROM_INPUT: Final = INT_MIN
MORE: Final = INT_MIN + 1
MARKS: Final = (FROM_INPUT, MORE)

Slots = Mapping[str, Any]  # names by slot; only names of operands are read
Attrs = Mapping[str, Any]

MAX_NUMBERS: Final = 2**16
"""Maximum number of elements that a variable may replace; an attribute has a mark for each."""


def list_items(value: Any) -> tuple[Any, ...]:
    """Return the elements of a list, or any other value as a single element."""
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def names_in(proto: OpProto, attrs: Attrs) -> list[str]:
    """Return the variable names that attributes contain instead of numbers."""
    items = (item for name in proto.operands for item in list_items(attrs.get(name)))
    return [item for item in items if isinstance(item, str)]


def bind_operands(
    proto: OpProto, inputs: Slots, attrs: Attrs, meta: Callable[[str], Meta | None] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Move variable names from attributes to inputs; return both, with marks in the attributes.

    Raises DtypeError or ShapeError for a variable that cannot replace numbers.
    """
    bound, marked = dict(inputs), dict(attrs)
    for name, attr in proto.operands.items():
        items = list_items(attrs.get(name) or inputs.get(name))
        names = [str(item) for item in items if isinstance(item, str)]
        if names:
            metas = map(meta, names) if meta is not None else repeat(None)
            lengths = map(partial(_count, proto.type, attr), names, metas)
            parts = ([i] if not isinstance(i, str) else _mark(next(lengths)) for i in items)
            numbers = [number for part in parts for number in part]
            bound[name] = tuple(names)
            marked[name] = numbers if attr.type.is_list else numbers[0]
    return bound, marked


def _mark(count: int) -> list[int]:
    return [FROM_INPUT, *[MORE] * (count - 1)]


def _count(op_type: str, attr: AttrProto, name: str, meta: Meta | None) -> int:
    """Return the number of elements of a variable, or one if its rank is unknown."""
    if meta is None:
        return 1
    who = f"{op_type}: {attr.name}"
    is_number = meta.dtype in INT_DTYPES
    if not (is_number or (attr.type is AttrType.FLOAT and is_float(meta.dtype))):
        raise DtypeError(f"{who} takes integer variables, got {name!r}, {meta}; cast it")
    count = meta.shape[0] if meta.shape else 1
    most = MAX_NUMBERS if attr.type.is_list else 1
    if len(meta.shape) > 1 or not 1 <= count <= most:
        wanted = (
            f"numbers, and vectors of a known length up to {most}" if most > 1 else "one number"
        )
        raise ShapeError(f"{who} takes {wanted}, got {name!r}, {meta}; reshape it")
    return count


def check_rest(op_type: str, attr: AttrProto, value: Any) -> Any:
    """Return the checked value of an attribute; marks are not checked."""
    rest = [item for item in list_items(value) if item not in MARKS]
    if not attr.type.is_list:
        return attr.check(op_type, value) if rest else value
    checked = iter(attr.check(op_type, rest))  # type: ignore[arg-type]  # a tuple, of a list
    return tuple([item if item in MARKS else next(checked) for item in list_items(value)])


def name_operands(inputs: Slots, attrs: Attrs) -> Attrs:
    """Return attributes as given by the caller, with names instead of marks."""
    if attrs.keys().isdisjoint(inputs):
        return attrs
    short = {
        name: tuple([item for item in attrs[name] if item != MORE])
        for name in attrs.keys() & inputs.keys()
        if isinstance(attrs[name], tuple)
    }
    return _replace(inputs, {**attrs, **short}, lambda name: inputs[name])


def hide_operands(inputs: Slots, attrs: Attrs) -> Attrs:
    """Return attributes with None for numbers that a shape rule cannot know."""
    return _replace(inputs, attrs, lambda _: repeat(None))


def fill_operands(proto: OpProto, inputs: Slots, attrs: Attrs, find: Callable[[str], Any]) -> Attrs:
    """Replace marks by elements of the arrays that `find` returns for names; check the attributes.

    Raises ProgramError if a variable's number of elements changed since the operator was created.
    """
    numbers = {
        name: [number for each in inputs[name] for number in np.asarray(find(each)).flat]
        for name in proto.operands
        if name in inputs
    }
    for name, found in numbers.items():
        n_marks = sum(item in MARKS for item in list_items(attrs[name]))
        if len(found) != n_marks:
            raise ProgramError(
                f"{proto.type}: {name} must get {n_marks} number(s) from variables, got "
                f"{len(found)} from {list(inputs[name])}; rebuild the program for these"
            )
    filled = _replace(inputs, attrs, numbers.__getitem__)
    return {**filled, **{n: proto.attr_protos[n].check(proto.type, filled[n]) for n in numbers}}


def _replace(inputs: Slots, attrs: Attrs, find: Callable[[str], Iterable[Any]]) -> Attrs:
    """Return attributes whose marks are replaced by the results of `find`."""
    replaced = {}
    for name in attrs.keys() & inputs.keys():
        value, numbers = attrs[name], iter(find(name))
        items = [next(numbers, None) if i in MARKS else i for i in list_items(value)]
        replaced[name] = tuple(items) if isinstance(value, tuple) else items[0]
    return {**attrs, **replaced} if replaced else attrs
