"""Creates partitioned parameters, initializes them as in one process, and marks them as parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import opwright as ow
from opwright.errors import ProgramError
from opwright_dist.groups.world import current_world
from opwright_dist.names import BLOCKS, TABLE
from opwright_dist.training.divided import find_divisions
from opwright_nn.initializer import Constant, Initializer
from opwright_nn.parameters.param_attr import ParamAttr, check_param_attr


class Part(Initializer):
    """An initializer that runs `initializer` and extracts the part of this process.

    Parameters
    ----------
    initializer : Initializer
        The initializer of the complete parameter, which draws the same numbers as in one process.
    group : str
        The processes that own the parts.
    axis : int
        The partitioned axis.
    layout : str
        As in the operator ``dist.own_part``.
    size : int
        The number of rows of a table, without the zero row.
    """

    def __init__(
        self, initializer: Initializer, group: str, axis: int, layout: str = BLOCKS, size: int = 0
    ) -> None:
        self._initializer = initializer
        self._group = group
        self._axis = axis
        self._layout = layout
        self._size = size

    def describe(self, shape: tuple[int, ...]) -> tuple[str, dict[str, Any]]:
        """Return the operator that extracts the part."""
        attrs = {"axis": self._axis, "group": self._group, "layout": self._layout}
        return "dist.own_part", attrs

    def append(self, block: ow.Block, variable: ow.Variable, stream: int) -> None:
        """Append the initialization of the complete parameter, then the extraction of the part."""
        if self._layout == BLOCKS and isinstance(self._initializer, Constant):
            self._initializer.append(block, variable, stream)  # parts have the same constant
            return
        shape = list(variable.shape or ())
        n_parts = current_world().group(self._group).size
        shape[self._axis] = self._size or shape[self._axis] * n_parts
        whole = block.create_var(block.program.free_name(f"{variable.name}_whole"), shape)
        whole.dtype = variable.dtype
        self._initializer.append(block, whole, stream)
        op_type, attrs = self.describe(tuple(shape))
        block.append_op(op_type, inputs={"x": whole}, outputs={"out": variable}, attrs=attrs)


def divide(
    who: str,
    name: str,
    attr: object,
    default: Initializer,
    part: Mapping[str, Any],
) -> ParamAttr:
    """Return the initializer of a partitioned parameter.

    Parameters
    ----------
    who, name : str
        The layer and argument, for messages.
    attr : ParamAttr or Initializer, optional
        The argument that the user passed.
    default : Initializer
        The default initializer.
    part : mapping
        The arguments of `Part` after the first.

    Raises
    ------
    ProgramError
        If the parameter exists and is not partitioned in this way.
    """
    checked = check_param_attr(who, name, attr)
    program = ow.default_main_program()
    if checked.name is None or program.global_block().find_var(checked.name) is None:
        return replace(checked, initializer=Part(checked.initializer or default, **part))
    known = find_divisions(program).get(checked.name)
    layout = part.get("layout", BLOCKS)
    if known is None or known[:3] != (part["axis"], part["group"], layout):
        raise ProgramError(
            f"{who}: the shared parameter {checked.name!r} must be partitioned as in this layer, "
            f"on axis {part['axis']} over group {part['group']!r}, got "
            + (
                f"axis {known.axis} over {known.group!r}"
                if known
                else "a parameter that is not partitioned"
            )
            + "; share it only between layers with the same partition"
        )
    return checked  # the layer that created the parameter initializes it


def mark(
    out: ow.Variable,
    name: str,
    parts: Sequence[ow.Variable],
    axes: Sequence[int],
    group: str,
    *,
    rows: int = 0,
) -> ow.Variable:
    """Append a marker for an output that was computed from parts of parameters.

    Parameters
    ----------
    out : Variable
        The output.
    name : str
        Name of the new variable.
    parts : sequence of Variable
        The parameters.
    axes : sequence of int
        The partitioned axis of each parameter.
    group : str
        The processes that own the parts.
    rows : int
        The number of rows of a table, including the zero row; each process then has its own loss.
    """
    attrs = {
        "group": group,
        "axes": list(axes),
        "sizes": [rows] * len(parts),
        "layout": TABLE if rows else BLOCKS,
        "losses": "each" if rows else "one",
    }
    inputs: dict[str, Any] = {"x": out, "parts": list(parts)}
    out.block.append_op("dist.divided", inputs=inputs, outputs={"out": name}, attrs=attrs)
    return out.block.var(name)
