"""create_parameter: a parameter for custom layers, like `torch.nn.Parameter`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import opwright as ow
from opwright.errors import AttributeTypeError, AttributeValueError
from opwright_nn import arguments, checks
from opwright_nn.initializer import Constant, Xavier
from opwright_nn.parameters.deferred import Shape
from opwright_nn.parameters.param_attr import ParamLike, check_param_attr
from opwright_nn.parameters.parameter import make_parameter

_WHO = "create_parameter"


class Dimension(NamedTuple):
    """The size of one axis of a variable; it may be unknown until the first batch."""

    variable: ow.Variable
    axis: int

    @property
    def size(self) -> int:
        """The size, or -1 if it is not known yet."""
        shape = self.variable.shape
        if shape is None:
            return -1
        if not -len(shape) <= self.axis < len(shape):
            raise AttributeValueError(
                f"dim: axis must be one of the {len(shape)} axes of {self.variable.name}, "
                f"got {self.axis}; count from 0, or from -1 backwards"
            )
        return shape[self.axis]


@arguments.suggest
def dim(variable: ow.Variable, axis: int) -> Dimension:
    """Return the size of a variable's axis, for use in the shape of a parameter.

    Parameters
    ----------
    variable : Variable
        A variable of the default main program.
    axis : int
        Negative numbers count from the end.

    Raises
    ------
    AttributeTypeError, AttributeValueError For an object that is not a variable, or a missing axis.
    """
    size = Dimension(
        checks.check_variable("dim", "variable", variable), checks.check_int("dim", "axis", axis)
    )
    size.size  # noqa: B018 - an axis that is not there fails here
    return size


@ow.transaction()
@arguments.suggest
def create_parameter(
    shape: Iterable[int | Dimension],
    dtype: object = "float32",
    *,
    name: str | None = None,
    attr: ParamLike | None = None,
) -> ow.Variable:
    """Return a trained variable of the default programs, for custom layers.

    Parameters
    ----------
    shape : iterable of int or Dimension
        Sizes, at least 0. ``nn.dim(x, -1)`` means a length taken from an input; in a `Model` it may
        be unknown until the first batch.
    dtype : str or NumPy dtype
        A float dtype.
    name : str, optional
        By default ``param_0`` and so on; `attr` may also contain a name. The name of an existing
        parameter of the same shape shares that parameter.
    attr : ParamAttr or Initializer, optional
        How it is initialized and trained. The default initializer is Xavier for two or more axes,
        as for a weight, and 0 for fewer, as for a bias.

    Raises
    ------
    AttributeTypeError, AttributeValueError
        For a shape that is not a list of sizes, and a malformed name or `attr`.
    DtypeError
        For a dtype that is not a float.
    ProgramError
        For the name of a variable that is not a parameter.
    ShapeError
        Outside a `Model`, for an unknown shape.
    """
    sizes = _check_sizes(shape)
    own_name = checks.check_name(_WHO, name)
    return make_parameter(
        _WHO,
        own_name or ow.default_main_program().unique_name("param"),
        check_param_attr(_WHO, "attr", attr),
        partial(_shape_of, sizes),
        default=Xavier() if len(sizes) > 1 else Constant(),
        dtype=checks.check_dtype(_WHO, dtype),
    )


def _check_sizes(shape: object) -> tuple[int | Dimension, ...]:
    if isinstance(shape, Dimension) or not checks.is_ordered(shape):
        raise AttributeTypeError(
            f"{_WHO}: shape must be a list of sizes, got {shape!r}; write [nn.dim(x, -1), 10]"
        )
    return tuple(
        size if isinstance(size, Dimension) else _check_size(i, size)
        for i, size in enumerate(shape)
    )


def _check_size(i: int, size: object) -> int:
    if size is None or size == -1:
        raise AttributeValueError(
            f"{_WHO}: shape[{i}] must be a size, got {size!r}; write nn.dim(x, axis) for the size "
            "of an input"
        )
    return checks.check_int(_WHO, f"shape[{i}]", size, at_least=0)


def _shape_of(sizes: tuple[int | Dimension, ...]) -> Shape:
    return tuple(size.size if isinstance(size, Dimension) else size for size in sizes)
