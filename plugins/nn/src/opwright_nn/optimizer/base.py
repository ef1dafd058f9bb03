"""Optimizer: the base class, which appends an update of each parameter to a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

import opwright as ow
from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    ProgramError,
    VariableNotFoundError,
)
from opwright_nn import arguments, checks, operators
from opwright_nn.clip import GradientClip
from opwright_nn.initializer import Constant
from opwright_nn.optimizer.declaration import check_fields, declare, find_attributes
from opwright_nn.optimizer.learning_rate import LearningRate, make_learning_rate
from opwright_nn.optimizer.loss_scaling import Updates, append_gradients
from opwright_nn.optimizer.pairs import (
    check_dense,
    check_divided,
    check_pairs,
    check_sparse,
    find_regularizer,
)
from opwright_nn.optimizer.sharding import Shards, find_shards, shape_of_state
from opwright_nn.optimizer.sparse_rows import SparseRows
from opwright_nn.parallel import DataParallel, average, check_data_parallel, find_team
from opwright_nn.parameters.deferred import Shape
from opwright_nn.parameters.parameter import make_state
from opwright_nn.regularizer import Regularizer
from opwright_nn.schedule import Schedule

Pair = tuple[ow.Variable, ow.Variable]


@arguments.suggest
class State(NamedTuple):
    """A tensor that an optimizer stores for each parameter, such as a moment.

    Attributes
    ----------
    slot : str
        The input slot of the operator that reads it.
    value : float or str
        The initial value of each element, or the optimizer's field that contains it.
    scalar : bool
        Whether it is a single number, float64 [1], instead of one per element of the parameter.
    """

    slot: str
    value: float | str = 0.0
    scalar: bool = False


@declare
class Optimizer:
    """The base class of optimizers. A subclass names its operator, its attributes and its states.

    The fields of these dataclasses are the attributes of the operator; their ranges are in the
    description of the operator.

    The learning rate is a persistable float32 [1] variable of the program, not an attribute, so
    that it may change between two steps without a new plan. A schedule writes the rate in each
    step, and counts the steps in another variable. Gradients are clipped first, then regularized.
    The gradient of `embedding` with ``sparse=True`` is applied to the rows that were looked up, by
    the operator of `sparse_op_type`; such a gradient cannot be clipped or regularized.

    Parameters
    ----------
    learning_rate : float, at least 0, or Schedule
        The learning rate after initialization, or the rate of each step.
    regularizer : Regularizer, optional
        Applied to every parameter without its own regularizer.
    clip : GradientClip, optional
        A bound on the gradients.
    """

    op_type: ClassVar[str]
    """The operator, with slots param, grad, learning_rate and its states, and aliased outputs."""

    sparse_op_type: ClassVar[str | None] = None
    """The operator for sparse gradients, with rows and values instead of grad; None if
    it does not exist. A subclass with its own `op_type` does not inherit it."""

    elementwise: ClassVar[bool] = False
    """Whether the operator updates each element separately: then a parameter can be
    sharded over processes. A subclass with its own `op_type` does not inherit it."""

    own_states: ClassVar[tuple[State, ...]] = ()
    """The states of each parameter."""

    learning_rate: LearningRate = LearningRate()
    _: dataclasses.KW_ONLY
    regularizer: Regularizer | None = None
    clip: GradientClip | None = None

    schedule: Schedule | None = dataclasses.field(init=False)
    initial_learning_rate: float = dataclasses.field(init=False)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "op_type" in cls.__dict__:
            cls.sparse_op_type = cls.__dict__.get("sparse_op_type")
            cls.elementwise = cls.__dict__.get("elementwise", False)

    def __post_init__(self) -> None:
        """Check the arguments."""
        checks.check_instance(self._who, "regularizer", self.regularizer, Regularizer)
        checks.check_instance(self._who, "clip", self.clip, GradientClip)
        if hasattr(self, "op_type"):
            check_fields(self)

    def __repr__(self) -> str:
        values = {"learning_rate": self.schedule or self.initial_learning_rate, **self.attrs()}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in values.items())})"

    def attrs(self) -> dict[str, Any]:
        """Return the attributes of the operator."""
        return find_attributes(self) if hasattr(self, "op_type") else {}

    def states(self) -> Sequence[State]:
        """Return the declared states; a value that names a field becomes the value of the field."""
        named = ((state, state.value) for state in self.own_states)
        return [
            state._replace(value=getattr(self, value)) if isinstance(value, str) else state
            for state, value in named
        ]

    @arguments.suggest
    @ow.transaction()
    def minimize(
        self,
        loss: ow.Variable,
        parameters: Iterable[ow.Variable | str] | None = None,
        *,
        data_parallel: bool | str | DataParallel | None = None,
    ) -> list[Pair]:
        """Append the gradients of `loss` and the updates of its parameters.

        Parameters
        ----------
        loss : Variable
            A variable of the default main program.
        parameters : iterable of Variable or str, optional
            The parameters to train; by default every trainable parameter.
        data_parallel : bool, str or DataParallel, optional
            The gradients are averaged over processes, each of which computes its shard of the
            batch; the loss must then be a mean over the examples of the process. True or "world"
            means all processes, any other name the processes of a group. The startup program
            broadcasts the parameters and states of the first process to all. In a single process,
            it has no effect.

        Returns
        -------
        list of (Variable, Variable)
            Each parameter with its gradient, as `append_backward` returns them. Within
            ``nn.mixed_precision("float16")`` the loss is scaled before they are computed.

        Raises
        ------
        MissingRequirementError
            `data_parallel` is given, and no package connects processes.
        """
        checks.check_variable(self._who, "loss", loss)
        parallel = check_data_parallel(self._who, data_parallel)
        names = None if parameters is None else list(parameters)
        pairs = append_gradients(self._who, loss, names)
        if parallel is not None:
            check_dense(self._who, pairs, parallel.group)
            pairs = list(average(self._who, parallel, pairs))
        self.apply_gradients(pairs)
        if parallel is not None:
            team = find_team(self._who, parallel.group)
            main, startup = ow.default_main_program(), ow.default_startup_program()
            team.processes.share_startup(startup, team.group, program=main)
        return pairs

    @ow.transaction()
    def apply_gradients(self, pairs: Sequence[Pair]) -> None:
        """Append the updates for (parameter, gradient) pairs: clip, regularize, update.

        Raises
        ------
        ProgramError
            There are no pairs, these or the optimizer belong to another program, a parameter is
            not trainable, a sparse gradient would have to be dense, or a sharded gradient would
            have to be complete.
        """
        check_pairs(self._who, pairs)
        check_divided(self._who, pairs, elementwise=self.elementwise, clip=self.clip)
        sparse, shards = self._check_sparse(pairs), self._find_shards(pairs)
        rate, updates = make_learning_rate(self), Updates(pairs, shards.group)
        clipped_pairs = pairs if self.clip is None else self._append_clip(self.clip, pairs, shards)
        for parameter, gradient in clipped_pairs:
            regularizer = find_regularizer(self._who, parameter, self.regularizer)
            target = shards.target(parameter)
            new_gradient = regularizer.append(target, gradient) if regularizer else gradient
            rows = sparse.get(new_gradient.name)
            states = self._append_update(updates, parameter, target, new_gradient, rate, rows)
            shards.declare(parameter, new_gradient, states)
        shards.append_join(parameter for parameter, _ in pairs)

    def _find_shards(self, pairs: Sequence[Pair]) -> Shards:
        shards = find_shards(self._who, pairs)
        if shards and not self.elementwise:
            raise ProgramError(
                f"{self._who}: an optimizer must update each element separately to be sharded "
                f"over processes, got the operator {self.op_type!r}, which needs the complete "
                "parameter; pass shard_optimizer=False to DataParallel, or use another optimizer, "
                "such as AdamW"
            )
        return shards

    def _append_clip(
        self, clip: GradientClip, pairs: Sequence[Pair], shards: Shards
    ) -> Sequence[Pair]:
        return clip.append_to_shards(pairs, shards.group) if shards else clip.append(pairs)

    def _check_sparse(self, pairs: Sequence[Pair]) -> dict[str, SparseRows]:
        return check_sparse(
            self._who,
            pairs,
            is_read=self.sparse_op_type is not None,
            clip=self.clip,
            regularizer=self.regularizer,
        )

    def set_learning_rate(self, scope: ow.Scope, value: float) -> None:
        """Change the learning rate of later steps, without a new plan.

        Parameters
        ----------
        scope : Scope
            A scope on which the startup program has run; another run resets the learning rate.
        value : float, at least 0
            The new learning rate.
        """
        if self.schedule is not None:
            raise ProgramError(
                f"{self._who}: the learning rate must be a number to be set, got a schedule, which "
                "computes it in each step; pass learning_rate=0.001, for example"
            )
        if not isinstance(scope, ow.Scope):
            raise AttributeTypeError(
                f"{self._who}: scope must be a Scope, got {scope!r} ({type(scope).__name__}); "
                "pass the scope on which the training step runs"
            )
        rate = checks.check_float(self._who, "learning rate", value, at_least=0.0)
        variable = scope.find_var(self.learning_rate.name)
        if variable is None or not variable.is_set:
            raise VariableNotFoundError(
                f"{self._who}: the scope must hold {self.learning_rate.name!r}, got a scope "
                "without it; run the startup program on it first"
            )
        variable.set(np.array([rate], np.float32))

    @property
    def _who(self) -> str:
        return type(self).__name__

    def _append_update(
        self,
        updates: Updates,
        parameter: ow.Variable,
        target: ow.Variable,
        gradient: ow.Variable,
        rate: ow.Variable,
        sparse: SparseRows | None,
    ) -> list[ow.Variable]:
        block = gradient.block
        factor = self._rate_factor(parameter)
        if factor != 1.0:
            prefix = f"{parameter.name}_learning_rate"
            rate = operators.append(block, "scale", {"x": rate}, {"scale": factor}, prefix=prefix)
        op_type, attrs = self.op_type, self.attrs()
        inputs: dict[str, Any] = {"param": target, "learning_rate": rate}
        if sparse is None:
            inputs["grad"] = gradient
        else:
            op_type = str(self.sparse_op_type)
            inputs |= {"rows": sparse.rows, "values": sparse.values}
            attrs = attrs | {"padding_indices": sparse.padding_indices}
        for state in self.states():
            inputs[state.slot] = self._make_state(parameter, target, state)
        updates.append(block, op_type, inputs, attrs)
        return [inputs[state.slot] for state in self.states() if not state.scalar]

    def _rate_factor(self, parameter: ow.Variable) -> float:
        options = getattr(parameter, "optimize", None)
        if options is None:
            return 1.0
        if not isinstance(options, Mapping) or options.keys() - {"learning_rate"}:
            raise AttributeValueError(
                f"{self._who}: the attribute optimize of {parameter.name!r} must be "
                f"{{'learning_rate': factor}}, got {options!r}; other options belong to the "
                "optimizer"
            )
        what = f"the learning rate factor of {parameter.name!r}"
        return checks.check_float(self._who, what, options.get("learning_rate", 1.0), at_least=0.0)

    def _make_state(self, parameter: ow.Variable, target: ow.Variable, state: State) -> ow.Variable:
        name = ow.default_main_program().free_name(f"{parameter.name}_{state.slot}")
        return make_state(
            self._who,
            name,
            partial(_state_shape, target, state.scalar),
            Constant(float(state.value)),
            # With float32, 1 - beta**step would lose precision for a beta near 1, and steps beyond
            # 2**24 could not be counted.
            "float64" if state.scalar else parameter.dtype,
        )


def _state_shape(target: ow.Variable, scalar: bool) -> Shape:
    return (1,) if scalar else shape_of_state(target)
