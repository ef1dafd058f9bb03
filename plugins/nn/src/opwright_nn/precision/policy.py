"""mixed_precision: matrix products in 16 bits, parameters and reductions in float32."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Final

import opwright as ow
from opwright.errors import AttributeTypeError, AttributeValueError, DtypeError
from opwright.op import OpDefinition
from opwright.plugin import adapt_inputs
from opwright_nn import arguments, checks
from opwright_nn.precision.lists import FLOAT32, NORMALIZATIONS, REDUCED, UNCHANGED

Names = Mapping[str, tuple[str, ...]]

_WHO: Final = "mixed_precision"
_WIDE: Final = "float32"
_NARROW: Final = ("bfloat16", "float16")

_POLICY: ContextVar[MixedPrecision | None] = ContextVar("mixed_precision", default=None)


class MixedPrecision:
    """The result of `mixed_precision`: a reusable context manager for building.

    Attributes
    ----------
    dtype : str
        "bfloat16", "float16", or "float32".
    loss_scale : float or None
        The initial scale of losses in `minimize`; None: they are not scaled.
    growth_steps : int
        The scale is doubled after this many steps without an overflow.
    """

    @arguments.suggest
    def __init__(
        self,
        dtype: str,
        float32: Iterable[str],
        reduced: Iterable[str],
        loss_scale: float | None,
        growth_steps: int,
    ) -> None:
        self.dtype = dtype
        self.loss_scale = loss_scale
        self.growth_steps = growth_steps
        self._float32 = (FLOAT32 | NORMALIZATIONS | frozenset(float32)) - frozenset(reduced)
        self._reduced = (REDUCED | frozenset(reduced)) - frozenset(float32)
        self._open: list[ExitStack] = []

    def __enter__(self) -> MixedPrecision:
        stack = ExitStack()
        stack.enter_context(self.building())
        self._open.append(stack)
        return self

    def __exit__(self, *error: object) -> None:
        self._open.pop().close()

    @contextmanager
    def building(self) -> Iterator[None]:
        """Make new operators follow the policy."""
        token = _POLICY.set(self)
        try:
            with adapt_inputs(self._adapt):
                yield
        finally:
            _POLICY.reset(token)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_open": []}

    def __repr__(self) -> str:
        return f"mixed_precision({self.dtype!r})"

    def _adapt(self, block: ow.Block, definition: OpDefinition, inputs: Names) -> Names:
        """Return the names of the inputs, or of casts that are appended for them."""
        if definition.control is not None or definition.op_type in UNCHANGED:
            return inputs
        floats = _find_floats(block, definition, inputs)
        if not {variable.dtype for variable in floats.values()} <= {_WIDE, *_NARROW}:
            return inputs  # the user requested float64
        target = self._choose(definition.op_type, floats.values())
        if target is None:
            return inputs
        new = {
            name: cast_to(variable, target).name
            for name, variable in floats.items()
            if variable.dtype != target
        }
        movable = _movable_slots(definition)
        return {
            slot: tuple([new.get(name, name) for name in names]) if slot in movable else names
            for slot, names in inputs.items()
        }

    def computes_in_float32(self, op_type: str) -> bool:
        """Return whether the float inputs of an operator are cast to float32."""
        return self.dtype == _WIDE or op_type in self._float32

    def _choose(self, op_type: str, floats: Iterable[ow.Variable]) -> str | None:
        """Return the dtype to which an operator's float inputs are cast, or None without a cast."""
        if self.computes_in_float32(op_type):
            return _WIDE
        if op_type in self._reduced:
            return self.dtype
        # Parameters take the dtype of computed values; of two computed values, the wider dtype is
        # used.
        computed = {_dtype_of_origin(v) for v in floats if not v.persistable}
        if len(computed) < 2:
            return next(iter(computed), None)
        return _WIDE


def _dtype_of_origin(variable: ow.Variable) -> str:
    """Return the dtype of a variable, or for a normalization's result the dtype of its input."""
    if variable.is_data or variable.dtype in _NARROW:
        return variable.dtype
    writer = next((op for op in reversed(variable.block.ops) if _writes(op, variable)), None)
    if writer is None or writer.type not in NORMALIZATIONS:
        return variable.dtype
    source, suffix, _ = writer.input("x")[0].rpartition(f"/{_WIDE}")
    before = variable.block.find_var(source) if suffix else None
    return _WIDE if before is None else before.dtype


def _writes(op: ow.Operator, variable: ow.Variable) -> bool:
    return variable.name in op.output_names()


def _movable_slots(definition: OpDefinition) -> set[str]:
    """Return the slots whose values are read and whose memory no output overwrites."""
    proto = definition.proto
    written = {slot.aliases for slot in proto.outputs}
    return {s.name for s in proto.inputs if not s.shape_only and s.name not in written}


def _find_floats(
    block: ow.Block, definition: OpDefinition, inputs: Names
) -> dict[str, ow.Variable]:
    """Return, by name, the float variables that an operator reads and that may be cast."""
    movable = _movable_slots(definition)
    names = [name for slot, items in inputs.items() if slot in movable for name in items]
    variables = [variable for name in names if (variable := block.find_var(name)) is not None]
    return {v.name: v for v in variables if "float" in v.dtype}


def cast_to(variable: ow.Variable, dtype: str) -> ow.Variable:
    """Return the variable cast to another dtype, reusing an earlier cast if possible.

    A variable is cast in its own block, so a loop casts a parameter only once, not per iteration.
    """
    if variable.dtype == dtype:
        return variable
    block, name = variable.block, f"{variable.name}/{dtype}"
    earlier = block.vars.get(name)
    if earlier is not None and _is_current_cast(block, variable.name, name):
        return earlier
    out = block.program.free_name(name)
    with adapt_inputs(None):
        block.append_op("cast", {"x": variable}, {"out": out}, {"dtype": dtype})
    return block.var(out)


def _is_current_cast(block: ow.Block, source: str, name: str) -> bool:
    """Return whether a variable is a cast of another variable that was not written since."""
    for op in reversed(block.ops):
        if name in op.output_names():
            return op.type == "cast" and op.input("x") == (source,)
        if source in op.output_names():
            return False
    return False


@arguments.suggest
def mixed_precision(
    dtype: object = "bfloat16",
    *,
    float32: Iterable[str] = (),
    reduced: Iterable[str] = (),
    loss_scale: float | None = None,
    growth_steps: int = 2000,
) -> MixedPrecision:
    """Build layers that compute in 16 bits, with parameters and reductions in float32.

    ::

        with nn.mixed_precision("bfloat16"):
            prob = layers.fc(layers.conv2d(images, 64, 3), 10, activation="softmax")

    Products, convolutions, attention and recurrent layers cast their inputs to `dtype`; losses,
    normalizations, softmax and sums compute in float32; the lists are in
    ``opwright_nn.precision.lists``. All other operators follow their inputs: if dtypes are mixed,
    float32 parameters are cast to 16 bits, and otherwise everything to float32. A parameter is cast
    once per step. Parameters, optimizer states and parameter gradients are float32.

    Parameters
    ----------
    dtype : str or NumPy dtype
        "bfloat16"; "float16", whose range needs a scaled loss; or "float32", which keeps part of a
        network in float32 within another ``with`` block.
    float32, reduced : iterable of str
        Operator types, of any plugin, that should compute in float32, or in `dtype`.
    loss_scale : float, > 0, optional
        The initial scale of the loss, 65536 by default for float16. A step with non-finite
        gradients skips the update and halves the scale. bfloat16 does not need a scale.
    growth_steps : int, at least 1
        The scale is doubled after this many steps without an overflow.

    Raises
    ------
    DtypeError
        For any other dtype.
    OperatorNotFoundError
        For an unknown operator type.
    """
    name = checks.check_dtype(_WHO, dtype)
    if name not in (*_NARROW, _WIDE):
        raise DtypeError(
            f'{_WHO}: dtype must be "bfloat16", "float16" or "float32", got {name!r}; bfloat16 has '
            "the range of float32 and does not need a loss scale"
        )
    wide, narrow = _op_types("float32", float32), _op_types("reduced", reduced)
    both = sorted(set(wide) & set(narrow))
    if both:
        raise AttributeValueError(
            f"{_WHO}: an operator must be in one list, got {both[0]!r} in float32 and in reduced"
        )
    scale = _check_loss_scale(name, loss_scale)
    steps = checks.check_int(_WHO, "growth_steps", growth_steps, at_least=1)
    return MixedPrecision(name, wide, narrow, scale, steps)


def _op_types(argument: str, given: Iterable[str]) -> list[str]:
    if not checks.is_listed(given):
        raise AttributeTypeError(
            f"{_WHO}: {argument} must be a list of operator types, got {given!r}; write "
            f"{argument}=['gelu'], for example"
        )
    types = [checks.check_str(_WHO, argument, item) for item in given]
    for op_type in types:
        ow.op_proto(op_type)  # raises, and names the nearest
    return types


def _check_loss_scale(dtype: str, value: float | None) -> float | None:
    if value is None:
        return 65536.0 if dtype == "float16" else None
    if dtype == _WIDE:
        raise AttributeValueError(
            f"{_WHO}: loss_scale requires a 16-bit dtype, got {value!r} with float32; omit it"
        )
    return checks.check_float(_WHO, "loss_scale", value, above=0.0)


def check_policy(who: str, value: object) -> MixedPrecision | None:
    """Return the policy for an argument: a policy, a dtype, or None."""
    if value is None or isinstance(value, MixedPrecision):
        return value
    if not isinstance(value, str):
        raise AttributeTypeError(
            f"{who}: mixed_precision must be a dtype or a result of nn.mixed_precision, got "
            f'{value!r} ({type(value).__name__}); write mixed_precision="bfloat16"'
        )
    return mixed_precision(value)


def find_policy() -> MixedPrecision | None:
    """Return the policy of the innermost ``with`` block, or None outside any block."""
    return _POLICY.get()


def parameter_dtype(dtype: str) -> str:
    """Return the parameter dtype of a layer whose input has this dtype."""
    policy = find_policy()
    return _WIDE if policy is not None and dtype in _NARROW else dtype
