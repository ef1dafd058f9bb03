"""Accumulate: sums gradients over several steps before an optimizer updates the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import opwright as ow
from opwright.errors import ProgramError
from opwright.plugin import record_undo
from opwright_nn import arguments, checks, operators
from opwright_nn.initializer import Constant
from opwright_nn.optimizer.base import Optimizer, Pair
from opwright_nn.optimizer.pairs import check_pairs
from opwright_nn.optimizer.sharding import Shards, find_shards, shape_of_state
from opwright_nn.parameters.deferred import Shape
from opwright_nn.parameters.parameter import make_state


class Accumulate(Optimizer):
    """Update with the mean gradient of several steps: a large batch in small chunks.

    ::

        model.optimize(nn.optimizer.Accumulate(nn.optimizer.Adam(1e-3), steps=4))

    The sums and the count of the steps are persistable, so a checkpoint can be saved and resumed
    between two updates. Clipping, regularization and schedules belong to `optimizer`, and are
    applied once per update.

    `Model` and `nn.train` skip the update in all but every `steps`-th step. For a program,
    use `compile`: the result of ``Network.compile`` would update in each step.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer that updates the parameters.
    steps : int, at least 1
        The number of steps per update.
    """

    @arguments.suggest
    def __init__(self, optimizer: Optimizer, steps: int) -> None:
        checks.check_instance("Accumulate", "optimizer", optimizer, Optimizer, required=True)
        if isinstance(optimizer, Accumulate):
            raise ProgramError(
                "Accumulate: optimizer must update in each step, got Accumulate; pass its "
                "optimizer, with the product of both numbers of steps"
            )
        super().__init__(optimizer.schedule or optimizer.initial_learning_rate)
        self.optimizer = optimizer
        self.steps = checks.check_int("Accumulate", "steps", steps, at_least=1)
        self._count: str | None = None
        self._n_ops = 0

    @ow.transaction()
    def apply_gradients(self, pairs: Sequence[Pair]) -> None:
        """Append the operators that sum gradients, then the updates with the mean gradients."""
        if self._count is not None:
            raise ProgramError("Accumulate: apply_gradients must be called once, got a second call")
        program = ow.default_main_program()
        check_pairs(self._who, pairs)
        self._check_sparse(pairs)  # the sums have an element for every row
        block = program.global_block()
        count = make_state(
            self._who, program.free_name("accumulated_steps"), _one, Constant(0.0), "int64"
        )
        block.append_op("increment", {"x": count}, {"out": count.name})
        shards = find_shards(self._who, pairs)
        sums = [(parameter, self._append_sum(parameter, shards, grad)) for parameter, grad in pairs]
        record_undo(setattr, self, "_count", None)
        self._count, self._n_ops = count.name, len(block.ops)
        scale = {"scale": 1.0 / self.steps}
        means = [
            (parameter, operators.append(block, "scale", {"x": total}, scale, prefix=total.name))
            for parameter, total in sums
        ]
        self.optimizer.apply_gradients(means)
        record_undo(setattr, self, "_learning_rate", None)
        self._learning_rate = self.optimizer.learning_rate
        for _, total in sums:
            block.append_op("fill_like", {"x": total}, {"out": total.name}, {"value": 0.0})

    def compile(
        self,
        program: ow.Program,
        feed: Sequence[ow.Variable | str],
        fetch: Sequence[ow.Variable | str],
        scope: ow.Scope,
        **options: Any,
    ) -> AccumulatingStep:
        """Return the training step: a callable that updates in the last of each `steps` calls.

        Parameters
        ----------
        program : Program
            The program to which `minimize` has appended.
        feed, fetch, scope, **options
            As for ``Network.compile``; fetches must not depend on the updates.
        """
        if self._count is None:
            raise ProgramError(
                "Accumulate.compile: the updates must be appended first, got a program without "
                "them; call minimize(loss)"
            )
        part = program.clone()
        part.global_block().replace_ops(part.global_block().ops[: self._n_ops])
        part.touch()
        whole = ow.Network(program.global_block())
        calls = [
            network.compile(feed=feed, fetch=fetch, scope=scope, **options)
            for network in (ow.Network(part.global_block()), whole)
        ]
        return AccumulatingStep(calls[0], calls[1], scope, self._count, self.steps)

    def _append_sum(
        self, parameter: ow.Variable, shards: Shards, gradient: ow.Variable
    ) -> ow.Variable:
        name = ow.default_main_program().free_name(f"{parameter.name}_accumulated")
        zero, target = Constant(0.0), shards.target(parameter)
        total = make_state(self._who, name, partial(shape_of_state, target), zero, parameter.dtype)
        gradient.block.append_op("add_n", {"x": [total, gradient]}, {"out": total.name})
        shards.declare(parameter, gradient, [total])
        return total


class AccumulatingStep:
    """A training step that sums gradients, and updates with their mean in each `steps`-th call.

    Parameters
    ----------
    part, whole : callable
        The step without and with the updates.
    scope : Scope
        The scope, in which the count of steps has the name `count`.
    steps : int
        The number of steps per update.
    """

    @arguments.suggest
    def __init__(
        self,
        part: Any,
        whole: Any,
        scope: ow.Scope,
        count: str,
        steps: int,
    ) -> None:
        self.scope = scope
        self.feed_names: tuple[str, ...] = whole.feed_names
        self._part = part
        self._whole = whole
        self._count = count
        self._steps = steps

    def __call__(self, **feeds: Any) -> list[Any]:
        """Run a step; the count is read from the scope, which may have been loaded since."""
        done = int(self.scope.var(self._count).numpy()[0])
        call = self._part if (done + 1) % self._steps else self._whole
        return call(**feeds)  # type: ignore[no-any-return]


def _one() -> Shape:
    return (1,)
