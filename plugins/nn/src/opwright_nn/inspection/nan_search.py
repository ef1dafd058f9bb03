"""find_nan: the first operator of a step that produces a NaN or an infinity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import opwright as ow
from opwright.errors import AttributeTypeError, FeedError, VariableNotFoundError
from opwright.plugin import hint
from opwright.vocabulary import STEP
from opwright_nn import arguments, checks
from opwright_nn.model import Model
from opwright_nn.model.feeds import check_inputs


@arguments.suggest
@dataclass(frozen=True, slots=True)
class NonFinite:
    """The origin of a NaN or an infinity.

    Attributes
    ----------
    op_type : str
        The operator that computed it; empty for a feed or a parameter.
    place : int
        The index of the operator in its block, -1 if there is none.
    variable : str
        The variable with the value.
    kind : str
        "NaN" or "infinity".
    count, size : int
        The number of such elements, and of all elements.
    ranges : mapping of str to (float, float)
        The smallest and the largest number in each float input of the operator.
    """

    op_type: str
    place: int
    variable: str
    kind: str
    count: int
    size: int
    ranges: Mapping[str, tuple[float, float]]

    def __str__(self) -> str:
        counted = f"{self.kind} in {self.variable!r}, {self.count} of {self.size} elements"
        if not self.op_type:
            return f"given: {counted}"
        inputs = ", ".join(f"{n} in [{a:g}, {b:g}]" for n, (a, b) in self.ranges.items())
        return f"operator {self.place}, {self.op_type}: {counted}; inputs: {inputs or 'none'}"


@arguments.suggest
def find_nan(
    model: Model | ow.Network | ow.Program,
    feeds: Mapping[str, Any] | None = None,
    *,
    scope: ow.Scope | None = None,
    device: str | None = None,
) -> NonFinite | None:
    """Run a step operator by operator; return where the first NaN or infinity originates.

    The origin is an operator whose output has a NaN although no input has a NaN, or an infinity
    although all inputs are finite. Outputs of operators without inputs, such as the -inf of a mask,
    are considered intended. The step works on copies: parameters, states and random numbers stay
    unchanged.

    Parameters
    ----------
    model : Model, Network or Program
        The model or program of the step, including updates. A body of control flow counts as
        part of its operator.
    feeds : mapping of str to array, optional
        The inputs; for a Model by default those set by `fill`.
    scope : Scope, optional
        The scope of the parameters of a Network or Program; by default the default scope.
    device : str, optional
        The device to run on; by default the Model's, or "cpu".

    Returns
    -------
    NonFinite or None
        ``print`` shows operator, place and variable; None if every number is finite.

    Raises
    ------
    AttributeTypeError, FeedError, VariableNotFoundError
        `model` is not a Model, Network or Program, or an input or a parameter has no value.
    """
    who, options = "find_nan", {}
    if isinstance(model, Model):
        checks.check_instance(who, "scope", scope, type(None))
        given = model._feeds
        if feeds is not None:
            given = check_inputs(who, model.program, feeds, model._cast)
        model._startup.settle(given)
        model._startup.initialize()
        network, scope, options = ow.Network(model.network.block), model.scope, model.run_options()
    else:
        network, given = _make_network(model), {}
        if feeds is not None:
            given = dict(checks.check_mapping(who, "feeds", feeds, "{'img': images}"))
    if device is not None:
        options["device"] = device
    values = _copy_values(network, given, ow.default_scope() if scope is None else scope)
    return _Search(network, values, options).run()


def _make_network(model: object) -> ow.Network:
    if isinstance(model, ow.Program):
        return ow.Network(model.global_block())
    if not isinstance(model, ow.Network):
        raise AttributeTypeError(
            f"find_nan: model must be a Model, a Network or a Program, got {model!r} "
            f"({type(model).__name__}); pass ow.Network(program.global_block())"
        )
    return ow.Network(model.ops if model.block is None else model.block)


def _copy_values(network: ow.Network, feeds: Mapping[str, Any], scope: ow.Scope) -> ow.Scope:
    """Return a separate scope with the feeds, and with the variables of a scope that the operators
    read.
    """
    names, block = list(ow.names_read_first(network.ops)), network.block
    for name in feeds:
        if name not in names:
            raise FeedError(
                f"find_nan: feeds must be inputs of the network, got {name!r}{hint(name, names)}"
            )
    values = ow.Scope()
    for name in names:
        variable = None if block is None else block.find_var(name)
        if name in feeds:
            data = feeds[name]
            array = data if variable is None else ow.check_feed(data, variable, "find_nan")
            values.var(name).set(array)
            continue
        held = scope.find_var(name)
        if held is not None and held.is_set:
            values.var(name).set(held.numpy())
        elif name == STEP:
            values.var(name).set(np.zeros(1, np.int64))  # the first run
        elif variable is not None and variable.persistable:
            raise VariableNotFoundError(
                f"find_nan: the scope must hold {name!r}, got no value; run the startup program, "
                "or pass the scope of the step"
            )
        else:
            raise FeedError(
                f"find_nan: every input must be given, got no value for {name!r}; pass "
                f"feeds={{{name!r}: array}}"
            )
    return values


class _Search:
    """Runs operators one by one, and records which variables have a NaN or an infinity."""

    def __init__(self, network: ow.Network, scope: ow.Scope, options: Mapping[str, Any]) -> None:
        self._network = network
        self._scope = scope
        self._options = options
        self._nan: set[str] = set()
        self._infinite: set[str] = set()

    def run(self) -> NonFinite | None:
        for name in self._scope.names():
            kind = self._note(name)
            if kind == "NaN":
                return self._report("", -1, name, kind, {})
        step = self._scope.find_var(STEP)
        first_step = None if step is None else step.numpy()
        for place, op in enumerate(self._network.ops):
            found = self._run_operator(place, op)
            if found is not None:
                return found
            if step is not None and first_step is not None:
                step.set(first_step)  # each run counts; the operators of a step draw at one count
        return None

    def _run_operator(self, place: int, op: ow.Operator) -> NonFinite | None:
        inputs = list(dict.fromkeys(op.input_names()))
        ranges = {name: r for name in inputs if (r := _range(self._array(name))) is not None}
        has_nan = not self._nan.isdisjoint(inputs)
        has_infinity = has_nan or not self._infinite.isdisjoint(inputs)
        self._network.run(self._scope, place, place, **self._options)
        for name in op.output_names():
            kind = self._note(name)
            is_new = (kind == "NaN" and not has_nan) or (kind == "infinity" and not has_infinity)
            if is_new and inputs:
                return self._report(op.type, place, name, kind, ranges)
        return None

    def _array(self, name: str) -> Any:
        """Return a variable's values, or None if it is unset or not floating-point."""
        variable = self._scope.find_var(name)
        if variable is None or not variable.is_set:
            return None
        array = variable.numpy()
        return None if array.dtype.kind in "biu" else array

    def _note(self, name: str) -> str:
        """Record whether a variable is finite now; return "NaN", "infinity", or "" if it is."""
        array = self._array(name)
        self._nan.discard(name)
        self._infinite.discard(name)
        if array is None or np.isfinite(array).all():
            return ""
        kind = "NaN" if np.isnan(array).any() else "infinity"
        (self._nan if kind == "NaN" else self._infinite).add(name)
        return kind

    def _report(
        self, op_type: str, place: int, name: str, kind: str, ranges: dict[str, Any]
    ) -> NonFinite:
        array = self._array(name)
        count = int((np.isnan(array) if kind == "NaN" else np.isinf(array)).sum())
        return NonFinite(op_type, place, name, kind, count, int(array.size), ranges)


def _range(array: Any) -> tuple[float, float] | None:
    if array is None or array.size == 0 or array.dtype.kind == "c":
        return None
    return float(array.min()), float(array.max())
