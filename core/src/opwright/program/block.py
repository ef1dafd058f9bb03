"""A block of a program: variables by name, and operators in the order in which they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from opwright.describe.meta import Meta, format_shape
from opwright.errors import DtypeError, ProgramError, ShapeError, VariableNotFoundError
from opwright.messages.arguments import suggest_arguments
from opwright.messages.names import hint
from opwright.program.building import make_operator
from opwright.program.calls import append_call
from opwright.program.journal import transaction
from opwright.program.operator import Given, Operator, definition_of
from opwright.program.variable import DEFAULT_DTYPE, Parameter, Variable

if TYPE_CHECKING:
    from opwright.program.program import Program


class Block:
    """A part of a program with its own variables; block 0 is the global block.

    `Program.create_block` makes one. A block can read variables of enclosing blocks, but write only
    its own.

    Attributes
    ----------
    program : Program
    idx : int
        Its index in ``program.blocks``.
    parent_idx : int or None
        The enclosing block, None for the global block.
    vars : dict of str to Variable
        Its own variables, in the order in which they were created.
    ops : list of Operator
        In the order in which they run.
    """

    __slots__ = ("idx", "ops", "parent_idx", "program", "vars")

    def __init__(self, program: Program, idx: int, parent_idx: int | None) -> None:
        self.program = program
        self.idx = idx
        self.parent_idx = parent_idx
        self.vars: dict[str, Variable] = {}
        self.ops: list[Operator] = []

    @property
    def generation(self) -> int:
        """A counter that each change of the program increments; it is part of every plan key."""
        return self.program.generation

    @property
    def parent(self) -> Block | None:
        """The enclosing block."""
        return None if self.parent_idx is None else self.program.blocks[self.parent_idx]

    @property
    def depth(self) -> int:
        """The number of enclosing blocks."""
        return sum(1 for _ in self._outward()) - 1

    def _outward(self) -> Iterator[Block]:
        """Yield this block and its enclosing blocks, up to the global block."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.parent

    @suggest_arguments
    def create_var(
        self,
        name: str | None = None,
        shape: Iterable[int | None] | None = None,
        dtype: object = DEFAULT_DTYPE,
        *,
        persistable: bool = False,
        stop_gradient: bool = False,
        is_data: bool = False,
    ) -> Variable:
        """Return a new variable, or the existing variable of that name if its declaration is equal.

        Parameters
        ----------
        name : str, optional
            By default a fresh name.
        shape : sequence of int or None, optional
            The dimensions, with None or -1 for unknown dimensions. Without a shape, the variable
            gets its shape and dtype from the operator that writes it.
        dtype : str or numpy dtype
            Any dtype of `opwright.op.DTYPES`.
        persistable : bool
            Whether the value is kept between runs, in a scope.
        stop_gradient : bool
            Whether gradients end here.
        is_data : bool
            Whether the value is fed.

        Raises
        ------
        ShapeError, DtypeError, ProgramError
            If a variable of this name exists and was declared differently.
        """
        if name is None:
            name = self.program.unique_name("var")
        variable = Variable(
            self,
            name,
            shape,
            dtype,
            persistable=persistable,
            stop_gradient=stop_gradient,
            is_data=is_data,
        )
        return self._declare(variable)

    def create_global_var(self, *args: Any, **kwargs: Any) -> Variable:
        """Create a variable in the global block; the arguments are the same as for `create_var`."""
        return self.program.global_block().create_var(*args, **kwargs)

    @suggest_arguments
    def create_parameter(
        self,
        name: str | None = None,
        shape: Iterable[int | None] | None = None,
        dtype: object = DEFAULT_DTYPE,
        *,
        trainable: bool = True,
        stop_gradient: bool = False,
        initializer: Any = None,
        optimize: Any = None,
        regularizer: Any = None,
    ) -> Parameter:
        """Create a parameter in the global block, or return the parameter of that name and shape.

        Parameters
        ----------
        name : str, optional
            By default a fresh name that ends with ``_param``.
        shape : sequence of int or None, optional
            It may be unknown until the parameter is set, before the first run.
        dtype : str or numpy dtype
            Any dtype of `opwright.op.DTYPES`.
        trainable : bool
            Whether `append_backward` returns its gradient by default.
        stop_gradient : bool
            Whether gradients end here.
        initializer, optimize, regularizer : object
            Stored for layers and optimizers.
        """
        block = self.program.global_block()
        if name is None:
            name = f"{self.program.unique_name('var')}_param"
        parameter = Parameter(
            block,
            name,
            shape,
            dtype,
            trainable=trainable,
            stop_gradient=stop_gradient,
            initializer=initializer,
            optimize=optimize,
            regularizer=regularizer,
        )
        declared = block._declare(parameter)
        if not isinstance(declared, Parameter):
            raise ProgramError(f"create_parameter: {declared!r} exists and is not a parameter")
        return declared

    def _declare(self, variable: Variable) -> Variable:
        """Add a variable, or return an existing variable with its name and an equal declaration."""
        name = variable.name
        old = self.vars.get(name)
        if old is None:
            outer = self.find_var(name)
            if outer is not None:
                raise ProgramError(
                    f"create_var: {name!r} is {outer!r} of the enclosing block {outer.block.idx}; "
                    "choose another name"
                )
            self._add_var(variable)
            return variable
        _check_declaration(old, variable)
        return old

    def _add_var(self, variable: Variable) -> None:
        self.vars[variable.name] = variable
        self.program.note_change(self.vars.pop, variable.name)
        self.program.note_name(variable.name)

    def rename_var(self, old: str, new: str) -> None:
        """Rename a variable; the caller updates the operators that use it."""
        variable = self.vars.pop(old)
        variable.name = new
        self.vars[new] = variable
        self.program.note_change(self.rename_var, new, old)

    def replace_vars(self, variables: dict[str, Variable]) -> None:
        """Set the variables of the block."""
        old, self.vars = self.vars, variables
        self.program.note_change(setattr, self, "vars", old)

    def define_var(self, name: str, shape: tuple[int, ...] | None, dtype: str) -> None:
        """Create a variable, or change an existing one, with an inferred shape and dtype."""
        variable = self.vars.get(name)
        if variable is None:
            self._add_var(Variable.of(self, name, shape, dtype))
        else:
            variable.shape = shape
            variable.dtype = dtype

    def enter_copy(self, variable: Variable) -> None:
        """Copy a variable of another block to this block, unless the name is taken."""
        if variable.name not in self.vars:
            self._add_var(variable.copy_to(self))

    def move_into(self, parent: Block) -> None:
        """Make a different block of the program the parent of this block."""
        self.program.note_change(setattr, self, "parent_idx", self.parent_idx)
        self.parent_idx = parent.idx

    def find_var(self, name: str) -> Variable | None:
        """Return the variable of that name in this or an enclosing block, or None."""
        for block in self._outward():
            if name in block.vars:
                return block.vars[name]
        return None

    def var(self, name: str) -> Variable:
        """Return the variable of that name in this or an enclosing block.

        Raises
        ------
        VariableNotFoundError
            If there is none; the message suggests a similar name.
        """
        variable = self.vars.get(name)
        return self.get_var(name, f"block {self.idx}") if variable is None else variable

    def get_var(self, name: str, who: str) -> Variable:
        """Like `var`, but error messages begin with `who`."""
        variable = self.find_var(name)
        if variable is None:
            known = dict.fromkeys(chain.from_iterable(block.vars for block in self._outward()))
            raise VariableNotFoundError(
                f"{who}: no such variable, got {name!r}{hint(name, known, 'variables')}"
            )
        return variable

    def append_op(
        self,
        type: str,
        inputs: Mapping[str, Given] | None = None,
        outputs: Mapping[str, Given] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Operator:
        """Check an operator, infer the shapes of its outputs, and append it.

        Parameters
        ----------
        type : str
            The operator type.
        inputs, outputs : mapping, optional
            By slot, a Variable, a name, or a list of these. Output variables that do not exist are
            created with the inferred shape and dtype. Required outputs that are not given get fresh
            names; an aliased output is the variable of its input. A random operator reads `@step`
            as its step, unless another step is given, or None for no step.
        attrs : mapping, optional
            By name; a BLOCK attribute takes a Block.

        Returns
        -------
        Operator
            ``op.output(slot)`` has the names of its outputs.

        Raises
        ------
        OperatorNotFoundError, SlotError, AttributeTypeError, AttributeValueError
            For an unknown operator, slot or attribute, and for a missing slot or attribute.
        VariableNotFoundError
            For an input that is not a variable.
        ShapeError, DtypeError
            For inputs that do not fit, and existing outputs with a different shape or dtype.
        """
        with transaction():
            op = make_operator(self, type, inputs or {}, outputs or {}, attrs or {}, adapts=True)
            self.add_op(op)
        return op

    def append_call(
        self, op_type: str, operands: Iterable[Any], attrs: Mapping[str, Any]
    ) -> Variable:
        """Append an operator like its function in `opwright.ops`; return its first output.

        `operands`, one for each of the first inputs, are Variables, numbers or arrays.
        """
        proto = definition_of(op_type).proto
        given = [[operand] for operand in operands]
        given += [[]] * (len(proto.inputs) - len(given))
        op = append_call(self, proto, given, attrs)
        first = next(slot.name for slot in proto.outputs if not slot.intermediate)
        return self.var(op.output(first)[0])

    def prepend_op(
        self,
        type: str,
        inputs: Mapping[str, Given] | None = None,
        outputs: Mapping[str, Given] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Operator:
        """Insert an operator before all other operators; otherwise like `append_op`."""
        with transaction():
            op = make_operator(self, type, inputs or {}, outputs or {}, attrs or {})
            self.ops.insert(0, op)
            self.program.note_change(self._drop_op, op)
        return op

    def add_op(self, op: Operator) -> None:
        """Append an operator that was created for this block."""
        self.ops.append(op)
        self.program.note_change(self._drop_op, op)

    def _drop_op(self, op: Operator) -> None:
        if self.ops[-1] is op:  # fast path, since `remove` searches from the front
            self.ops.pop()
        else:
            self.ops.remove(op)

    def replace_ops(self, ops: Sequence[Operator]) -> None:
        """Set the operators of the block."""
        old = list(self.ops)
        self.ops[:] = ops
        self.program.note_change(self.ops.__setitem__, slice(None), old)

    def replace_op(self, old: Operator, new: Operator) -> None:
        """Replace the operator `old` by `new`."""
        self.replace_ops([new if op is old else op for op in self.ops])

    def block_metas(self, index: int, names: Sequence[str]) -> list[Meta]:
        """Return the metas of output variables of the block with that index."""
        body = self.program.block(index)
        metas = []
        for name in names:
            meta = body.var(name).meta
            if meta is None:
                raise ShapeError(
                    f"block {index}: outputs of a block must have a known number of dimensions, "
                    f"got {body.var(name)!r}; give its inputs shapes first"
                )
            metas.append(meta)
        return metas

    def captured(self) -> tuple[str, ...]:
        """Return the outer variables that the block and its inner blocks read, by first use."""
        return tuple(
            dict.fromkeys(n for op in self.ops for n in op.input_names() if n not in self.vars)
        )

    def parameters(self) -> Iterator[Parameter]:
        """The parameters of this block, in order."""
        return (var for var in self.vars.values() if isinstance(var, Parameter))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self.program).block, (self.program, self.idx)  # a program is pickled once

    def __repr__(self) -> str:
        return f"Block({self.idx}, {len(self.vars)} variables, {len(self.ops)} operators)"

    def __str__(self) -> str:
        from opwright.program.text import format_block

        return format_block(self)


def _check_declaration(old: Variable, new: Variable) -> None:
    if new.shape is not None and old.shape is not None and old.shape != new.shape:
        raise ShapeError(
            f"create_var: {old!r} exists with another shape, got {format_shape(new.shape)}; "
            "choose another name"
        )
    if old.dtype != new.dtype and (new.shape is not None or new.dtype != DEFAULT_DTYPE):
        raise DtypeError(
            f"create_var: {old!r} exists with another dtype, got {new.dtype}; choose another name"
        )
    if old.is_parameter != new.is_parameter or (new.persistable and not old.persistable):
        what = "a parameter" if new.is_parameter else "persistable"
        raise ProgramError(f"create_var: {old!r} exists and is not {what}; choose another name")
