"""A variable of a program has a name, a shape and a dtype; parameters are variables to train."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from opwright.describe.dtypes import canonical_dtype
from opwright.describe.meta import Meta
from opwright.errors import AttributeTypeError, ProgramError, ShapeError
from opwright.messages.arguments import check_flag
from opwright.program.arithmetic import Arithmetic
from opwright.program.names import check_name

if TYPE_CHECKING:
    from opwright.program.block import Block

UNKNOWN_DIM: Final = -1
"""A dimension that is known only when the program runs."""

DEFAULT_DTYPE: Final = "float32"


def _normalize_shape(name: str, shape: Iterable[int | None] | None) -> tuple[int, ...] | None:
    """Return the shape as a tuple of ints, with -1 for unknown dimensions (None or -1)."""
    if shape is None:
        return None
    if isinstance(shape, str | bytes | Set | Mapping):  # sets are unordered
        raise ShapeError(f"{name}: a shape must be a sequence of ints, got {shape!r}")
    try:
        return tuple(_normalize_dim(name, dim) for dim in shape)
    except TypeError:
        raise ShapeError(f"{name}: a shape must be a sequence of ints, got {shape!r}") from None


def _normalize_dim(name: str, dim: int | None) -> int:
    if dim is None:
        return UNKNOWN_DIM
    if isinstance(dim, bool):
        raise ShapeError(f"{name}: a dimension must be an int, got {dim!r}")
    value = operator.index(dim)
    if value < UNKNOWN_DIM:
        raise ShapeError(f"{name}: a dimension must be at least 0, or -1 if unknown, got {value}")
    return value


class Variable(Arithmetic):
    """A value of a program, which has a name in a block.

    Variables are created by `Block.create_var` and, for outputs, by `Block.append_op`.

    Attributes
    ----------
    block : Block
    name : str
        Unique in the block and in the enclosing blocks.
    stop_gradient : bool
        Whether no gradient flows to or through the variable.
    is_data : bool
        Whether the value is fed.
    """

    __slots__ = ("_dtype", "_persistable", "_shape", "block", "is_data", "name", "stop_gradient")
    _fields: ClassVar[tuple[str, ...]] = __slots__

    def __init__(
        self,
        block: Block,
        name: str,
        shape: Iterable[int | None] | None = None,
        dtype: object = DEFAULT_DTYPE,
        *,
        persistable: bool = False,
        stop_gradient: bool = False,
        is_data: bool = False,
    ) -> None:
        self.block = block
        self.name = check_name(name)
        self._shape = _normalize_shape(name, shape)
        self._dtype = canonical_dtype(dtype)
        self._persistable = check_flag(name, "persistable", persistable)
        self.stop_gradient = check_flag(name, "stop_gradient", stop_gradient)
        self.is_data = check_flag(name, "is_data", is_data)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The dimensions, -1 where unknown; None if the number of dimensions is unknown."""
        return self._shape

    @shape.setter
    def shape(self, shape: Iterable[int | None] | None) -> None:
        old, self._shape = self._shape, _normalize_shape(self.name, shape)
        self.block.program.note_change(setattr, self, "_shape", old)

    @property
    def dtype(self) -> str:
        """Canonical name of the dtype."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: object) -> None:
        old, self._dtype = self._dtype, canonical_dtype(dtype)
        self.block.program.note_change(setattr, self, "_dtype", old)

    @property
    def persistable(self) -> bool:
        """Whether the value is kept between runs, in a scope."""
        return self._persistable

    @persistable.setter
    def persistable(self, persistable: bool) -> None:
        old = self._persistable
        self._persistable = check_flag(self.name, "persistable", persistable)
        self.block.program.note_change(setattr, self, "_persistable", old)

    is_parameter: ClassVar[bool] = False
    """Whether this is a `Parameter`."""

    @property
    def meta(self) -> Meta | None:
        """Shape and dtype, or None while the number of dimensions is unknown."""
        shape = self._shape
        return None if shape is None else Meta(shape, self._dtype)

    @classmethod
    def of(cls, block: Block, name: str, shape: tuple[int, ...] | None, dtype: str) -> Variable:
        """Return a variable with these arguments, which must be valid."""
        variable = cls(block, name, None, dtype)
        variable._shape = shape
        return variable

    def copy_to(self, block: Block) -> Self:
        """Return a copy of this variable for `block`, without adding it to the block."""
        twin = object.__new__(type(self))
        for slot in self._fields:
            setattr(twin, slot, getattr(self, slot))
        twin.block = block
        return twin

    @property
    def type_text(self) -> str:
        """Dtype and shape for messages, such as ``float32[?, 64]``."""
        return f"{self.dtype}[...]" if self.meta is None else str(self.meta)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.block.vars.get(self.name) is not self:
            raise ProgramError(
                f"{self.name}: a variable that is pickled or copied must be in its block, got one "
                "that was removed; keep its name instead"
            )
        return type(self.block).var, (self.block, self.name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_text})"


class Parameter(Variable):
    """A persistable variable of the global block that training changes.

    Attributes
    ----------
    initializer, optimize, regularizer : object
        For layers and optimizers; the core does not use them, and they are not saved.
    """

    __slots__ = ("_trainable", "initializer", "optimize", "regularizer")
    _fields = (*Variable.__slots__, *__slots__)

    def __init__(
        self,
        block: Block,
        name: str,
        shape: Iterable[int | None] | None = None,
        dtype: object = DEFAULT_DTYPE,
        *,
        trainable: bool = True,
        stop_gradient: bool = False,
        initializer: Any = None,
        optimize: Any = None,
        regularizer: Any = None,
    ) -> None:
        super().__init__(block, name, shape, dtype, persistable=True, stop_gradient=stop_gradient)
        self._trainable = check_flag(name, "trainable", trainable)
        self.initializer = initializer
        self.optimize = optimize
        self.regularizer = regularizer

    @property
    def trainable(self) -> bool:
        """Whether later calls of `append_backward` return its gradient by default."""
        return self._trainable

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        old, self._trainable = self._trainable, check_flag(self.name, "trainable", trainable)
        self.block.program.note_change(setattr, self, "_trainable", old)

    is_parameter = True


def list_names(items: Variable | str | Iterable[Variable | str], argument: str) -> list[str]:
    """Return the names of one or several variables or names.

    Raises AttributeTypeError, which names the argument, for anything else.
    """
    is_one = isinstance(items, Variable | str) or not iterates(items)
    listed: Iterable[Any] = [items] if is_one else items
    names = [item.name if isinstance(item, Variable) else item for item in listed]
    for name in names:
        if not isinstance(name, str):
            raise AttributeTypeError(
                f"{argument} must be a list of variables or names, got {name!r} "
                f"({type(name).__name__}); write [prob, 'loss'], for example"
            )
    return names


def iterates(value: object) -> bool:
    """Whether a value can be iterated over, unlike 0-d arrays, which only seem to be iterable."""
    try:
        iter(value)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True
