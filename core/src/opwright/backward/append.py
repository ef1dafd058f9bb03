"""`append_backward`: appends gradient operators, and returns variables with their gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opwright.backward.emitting import append_zeros
from opwright.backward.routing import Key, Route, find_route
from opwright.backward.walking import Walk
from opwright.describe.definition import NoGradient
from opwright.describe.dtypes import is_float
from opwright.describe.meta import shapes_match
from opwright.errors import GradientError
from opwright.messages.arguments import suggest_arguments
from opwright.program import Block, Variable
from opwright.program.journal import transaction
from opwright.program.variable import iterates, list_names
from opwright.vocabulary import GRAD_SUFFIX

VariableOrName = Variable | str


@suggest_arguments
def append_backward(
    targets: Variable | Iterable[Variable],
    parameters: Iterable[VariableOrName] | None = None,
    no_grad: Iterable[VariableOrName] | None = None,
    *,
    grads: Mapping[VariableOrName, VariableOrName] | None = None,
    allow_unused: bool = False,
) -> list[tuple[Variable, Variable]]:
    """Append operators that compute gradients of the sum of all targets.

    With `grads`, the gradients are vector-Jacobian products: each target is multiplied by its
    variable in `grads`, and the sum over all elements and targets is differentiated.

    The gradient of ``w`` is named ``w_grad``, with a suffix if that name is taken. The function may
    be called again, for other targets or for gradients of gradients, because calls do not affect
    each other. A composite without a gradient rule is replaced by its body first. If an error is
    raised, the program is unchanged.

    Parameters
    ----------
    targets : Variable or iterable of Variable
        Float variables of one block, of any shape. Operators are appended to that block.
    parameters : iterable of Variable or str, optional
        The variables to differentiate with respect to. By default all trainable parameters that
        the targets depend on.
    no_grad : iterable of Variable or str, optional
        Variables to and through which no gradient flows, besides variables with ``stop_gradient``.
    grads : mapping of Variable or str to Variable or str, optional
        The gradients of targets, which are variables of the block, such as feeds, with the dtypes
        and shapes of the targets. A target that is not in the mapping has a gradient of ones.
    allow_unused : bool
        Omit wanted variables whose gradients are zero, because no target depends on them, or only
        through integers or ``stop_gradient``. By default such variables raise an error.

    Returns
    -------
    list of (Variable, Variable)
        Each wanted variable, and its gradient.

    Raises
    ------
    GradientError
        If a wanted variable does not get a gradient, a gradient must flow through an operator
        without a rule, a value is overwritten before a gradient reads it, a key of `grads` is not a
        target, or its variable does not fit the target.
    ProgramError
        If the body of a composite breaks a rule for bodies (`opwright.op.BodyContext`).

    Examples
    --------
    >>> pairs = append_backward(loss)  # doctest: +SKIP
    >>> [(w.name, g.name) for w, g in pairs]  # doctest: +SKIP
    [('fc_0_w_param', 'fc_0_w_param_grad')]
    """
    if not isinstance(targets, Variable) and not iterates(targets):
        raise GradientError(
            f"append_backward: targets must be a Variable or a list of Variables, got {targets!r}; "
            "pass the loss"
        )
    listed = [targets] if isinstance(targets, Variable) else list(targets)
    block = _check_targets(listed)
    stopped = frozenset(_names(block, () if no_grad is None else no_grad, "no_grad"))
    wanted = None if parameters is None else _names(block, parameters, "parameters")
    names = list(dict.fromkeys(target.name for target in listed))
    seeds = _check_seeds(block, names, {} if grads is None else grads)
    with transaction():
        route = find_route(block, names, wanted, stopped)
        _check_wanted(route)
        if not allow_unused:
            _check_dependence(route, names)
        return _append(route, names, wanted is None, seeds, allow_unused)


def append_gradients(target: Variable, by: Iterable[Variable]) -> dict[str, Variable]:
    """Append the gradients of a target as `append_backward` does; return them by name.

    Gradients are zeros for variables that the target does not depend on, such as unused arguments.
    """
    block = _check_targets([target])
    names = [target.name]
    with transaction():
        route = find_route(block, names, list(dict.fromkeys(v.name for v in by)), frozenset())
        _check_wanted(route)
        return {variable.name: grad for variable, grad in _append(route, names, False, {}, False)}


def _append(
    route: Route,
    targets: list[str],
    is_default: bool,
    seeds: Mapping[str, str],
    allow_unused: bool,
) -> list[tuple[Variable, Variable]]:
    """Append the gradient operators of a route; return (variable, gradient) pairs."""
    block, walk = route.block, Walk(route)
    for name in targets:
        if (key := route.versions.last_key(name)) in route.needed:
            walk.seed(key, seeds.get(name))
    walk.run()
    for name, key in list(route.wanted.items()):
        if key in walk.grads or (allow_unused and _is_unused(walk, key)):
            continue
        if not _may_be_left_out(walk, key, is_default, targets):
            walk.grads[key] = append_zeros(block, name, name + GRAD_SUFFIX)
    return [
        (block.var(name), block.var(walk.grads[key]))
        for name, key in route.wanted.items()
        if key in walk.grads
    ]


def _check_targets(targets: list[Variable]) -> Block:
    if not targets:
        raise GradientError("append_backward: targets must name a variable, got none")
    for target in targets:
        if not isinstance(target, Variable):
            raise GradientError(
                f"append_backward: a target must be a Variable of a program, got {target!r}"
            )
        if target.block is not targets[0].block:
            raise GradientError(
                f"append_backward: all targets must be in one block, got {targets[0]!r} and "
                f"{target!r}"
            )
        if not is_float(target.dtype):
            raise GradientError(f"append_backward: targets must have a float dtype, got {target!r}")
    return targets[0].block


def _names(block: Block, given: Iterable[VariableOrName], what: str) -> list[str]:
    """Return the given names without duplicates; raise if one is not a variable of the block."""
    names = list_names(given, f"append_backward: {what}")
    for name in names:
        block.get_var(name, f"append_backward: {what}")
    return list(dict.fromkeys(names))


def _check_seeds(
    block: Block, targets: list[str], grads: Mapping[VariableOrName, VariableOrName]
) -> dict[str, str]:
    """Return the names of the given gradients by target; raise if a gradient does not fit."""
    if not isinstance(grads, Mapping):
        raise GradientError(
            f"append_backward: grads must map targets to variables, got {grads!r}; write "
            f"grads={{{targets[0]}: variable}}"
        )
    argument = "append_backward: grads"
    values = list_names(grads.values(), argument)
    seeds = dict(zip(list_names(grads, argument), values, strict=True))
    for name, given in seeds.items():
        if name not in targets:
            raise GradientError(
                f"append_backward: a key of grads must be a target, got {name!r}; the targets are "
                f"{_quoted(targets)}"
            )
        target, grad = block.var(name), block.get_var(given, "append_backward: grads")
        a, b = target.shape, grad.shape
        if grad.dtype != target.dtype or not (a is None or b is None or shapes_match(a, b)):
            raise GradientError(
                f"append_backward: the gradient of {name!r} must be {target.type_text}, got "
                f"{grad!r}"
            )
    return seeds


def _check_wanted(route: Route) -> None:
    """Raise GradientError if the gradient of a wanted variable is stopped."""
    for name, key in route.wanted.items():
        stop = route.paths.find_stop(key)
        if stop is not None:
            raise GradientError(f"append_backward: {name!r} gets no gradient: {stop.reason}")


def _check_dependence(route: Route, targets: list[str]) -> None:
    """Raise GradientError if the targets do not depend on a wanted variable."""
    if not route.wanted:
        raise GradientError(
            f"append_backward: {_quoted(targets)} must depend on a trainable parameter, got none; "
            "name other variables with parameters="
        )
    for name in route.wanted:
        if name not in route.reached:
            raise GradientError(
                f"append_backward: {_quoted(targets)} must depend on {name!r}, got no operator "
                "on a path between them; omit it from parameters"
            )


def _is_unused(walk: Walk, key: Key) -> bool:
    """Whether it is correct that no path from a value to the targets has a gradient."""
    paths = walk.route.paths
    return not walk.reasons and not any(
        isinstance(forward.op.definition.gradient, NoGradient)
        and any(k in paths.influence and paths.find_stop(k) is None for k in forward.written())
        for forward, _ in paths.find_blocks(key)
    )


def _may_be_left_out(walk: Walk, key: Key, is_default: bool, targets: list[str]) -> bool:
    """Whether the user has cut off a wanted variable that got no gradient.

    Return False if the rules define the gradient as zero. GradientError is raised if the gradient
    ended for a different reason, so no gradient is silently zero.
    """
    if key not in walk.route.paths.influence:
        return False
    blocks = walk.route.paths.find_blocks(key)
    if is_default and blocks and all(stop.is_asked for _, stop in blocks):
        return True
    reasons = [f"{forward}: {stop.reason}" for forward, stop in blocks] or walk.reasons
    if not reasons:
        return False
    raise GradientError(
        f"append_backward: {key.name!r} must get a gradient from {_quoted(targets)}, got none, "
        f"since {'; '.join(reasons[:3])}; omit {key.name!r}, or use a different operator"
    )


def _quoted(names: list[str]) -> str:
    return ", ".join(map(repr, names))
