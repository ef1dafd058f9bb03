"""Operators for which a kernel can be generated, with their formulas in every language."""

from __future__ import annotations

from typing import Final, NamedTuple

from opwright import Context
from opwright.errors import OperatorNotFoundError
from opwright.op import OpProto
from opwright.plugin import find_nearest
from opwright_kit.scaffold.errors import ScaffoldError


class Formula(NamedTuple):
    """One element-wise operator: inputs ``x`` or ``x, y``, the output ``out``, default attributes.

    Attributes
    ----------
    words : str
        Its computation, for comments.
    python : str
        NumPy statements that write `out`, one a line; they broadcast as in NumPy.
    native : str
        An expression of C++ and CUDA C++ for one element of type T.
    n_inputs : int
        1 or 2.
    """

    words: str
    python: str
    native: str
    n_inputs: int = 1


# exp(-|x|) cannot overflow, and both branches are accurate in the tail of small results.
_SIGMOID: Final = (
    "small = np.exp(-np.abs(x))  # at most 1: nothing overflows\n"
    "np.divide(np.where(x < 0, small, 1), 1 + small, out=out)"
)

FORMULAS: Final = {
    # -0.0 + 0.0 is 0.0.
    "abs": Formula("|x|", "np.absolute(x, out=out)", "x < T(0) ? -x : x + T(0)"),
    "exp": Formula("e**x", "np.exp(x, out=out)", "opwright::functors::Exp(x)"),
    "negative": Formula("-x", "np.negative(x, out=out)", "-x"),
    "relu": Formula("max(x, 0)", "np.maximum(x, 0, out=out)", "opwright::functors::Relu(x)"),
    "sigmoid": Formula("1 / (1 + e**-x)", _SIGMOID, "opwright::functors::Sigmoid(x)"),
    "silu": Formula(
        "x / (1 + e**-x)",
        f"{_SIGMOID}\nnp.multiply(np.maximum(x, -1000), out, out=out)  # -inf * 0 is NaN",
        "opwright::functors::Silu(x)",
    ),
    "softplus": Formula(
        "ln(1 + e**x)", "np.logaddexp(x, 0, out=out)", "opwright::functors::Softplus(x)"
    ),
    "square": Formula("x * x", "np.square(x, out=out)", "x * x"),
    "tanh": Formula("tanh(x)", "np.tanh(x, out=out)", "opwright::functors::Tanh(x)"),
    "add": Formula("x + y", "np.add(x, y, out=out)", "x + y", 2),
    "divide": Formula("x / y", "np.divide(x, y, out=out)", "x / y", 2),
    "maximum": Formula(
        "max(x, y)", "np.maximum(x, y, out=out)", "opwright::functors::Maximum(x, y)", 2
    ),
    "minimum": Formula(
        "min(x, y)", "np.minimum(x, y, out=out)", "opwright::functors::Minimum(x, y)", 2
    ),
    "multiply": Formula("x * y", "np.multiply(x, y, out=out)", "x * y", 2),
    "subtract": Formula("x - y", "np.subtract(x, y, out=out)", "x - y", 2),
}
"""By operator type."""

DEFAULT_OPERATOR: Final = "silu"
"""The default operator of a generated kernel."""


def find_formula(op_type: str, context: Context) -> Formula:
    """Return the arithmetic of an installed operator.

    Raises
    ------
    OperatorNotFoundError
        If no installed package provides the operator, with the nearest name.
    ScaffoldError
        If a kernel for it cannot be generated, with the supported operators.
    """
    known = ", ".join(FORMULAS)
    try:
        proto = context.ops.get(op_type).proto
    except OperatorNotFoundError as error:
        raise OperatorNotFoundError(f"{error}\n  kernels can be generated for: {known}") from None
    formula = FORMULAS.get(op_type)
    if formula is None or not _fits(proto, formula):
        nearest = find_nearest(op_type, FORMULAS) or DEFAULT_OPERATOR
        raise ScaffoldError(
            f"new: a kernel can be generated for an element-wise operator whose formula is known, "
            f"got {op_type!r}; choose one of {known}, for example --operator {nearest}"
        )
    return formula


def _fits(proto: OpProto, formula: Formula) -> bool:
    """Return whether the operator has the formula's slots, and only attributes of `as_added`.

    A kernel without an added attribute is only used if the attribute has its default, for which the
    formula is right.
    """
    inputs = [slot.name for slot in proto.inputs]
    outputs = [slot.name for slot in proto.outputs]
    has_slots = inputs == ["x", "y"][: formula.n_inputs] and outputs == ["out"]
    return has_slots and all(attr.added for attr in proto.attrs)
