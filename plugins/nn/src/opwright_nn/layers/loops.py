"""scan and while_loop: a function is appended once, as a block, and runs repeatedly."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, NoReturn

import opwright as ow
from opwright.errors import AttributeTypeError, AttributeValueError
from opwright_nn import checks
from opwright_nn.layers.layer import Layer, begin
from opwright_nn.operators import append
from opwright_nn.precision import cast_to, find_policy

Variables = ow.Variable | list[ow.Variable] | tuple[ow.Variable, ...]
Carry = ow.Variable | tuple[ow.Variable, ...]


class _Given(NamedTuple):
    """One or several variables, in the form in which they were given."""

    variables: tuple[ow.Variable, ...]
    is_single: bool

    def shaped(self, variables: Sequence[ow.Variable]) -> Carry:
        """Return other variables in the same form: a single variable or a tuple."""
        return variables[0] if self.is_single else tuple(variables)


@ow.transaction()
def scan(
    body: Callable[..., object],
    init: Variables,
    xs: Variables | None = None,
    length: int | None = None,
    reverse: bool = False,
    name: str | None = None,
    checkpoint_every: int | None = None,
    axis: int = 0,
) -> tuple[Carry, Carry | None]:
    """Append a loop over the elements of `xs` along an axis, as `jax.lax.scan` does.

    A run computes ``carry, out[i] = body(carry, xs[i])`` for each i, with `init` as the first
    carry. Gradients flow through the loop: the values that they need are kept for every iteration.

    Parameters
    ----------
    body : callable
        ``body(carry, x) -> (carry, out)``; it appends the operators of one iteration. `carry` has
        the form of `init`, one variable or a tuple. The returned carry must have this form, and the
        same shapes and dtypes. `x` is one element of `xs`, or None without `xs`. `out` is a
        variable, a list of them, or None. It may read outer variables, such as weights.
    init : Variable, or list or tuple of them
        The carry of the first iteration.
    xs : Variable, or list or tuple of them, [n, ...], optional
        The sequences to iterate over.
    length : int, optional
        The number of iterations n; needed only without `xs`.
    reverse : bool
        Whether to begin with the last element.
    name : str, optional
        The prefix of the layer's variable names.
    checkpoint_every : int, optional
        At least 1. For gradients, save only every `checkpoint_every`-th carry and recompute the
        others: memory for n / k + k iterations instead of n, for the time of one more forward
        loop. Gradients are bitwise identical.
    axis : int
        The axis of `xs` and `out` to iterate along: 1 for sequences [batch, time, columns].
        Negative numbers count from the end. Axes other than 0 are moved to the front and back.

    Returns
    -------
    carry : Variable or tuple of Variable
        The last carry, in the form of `init`.
    out : Variable, tuple of Variable or None, [n, ...]
        The results of the iterations, in the order of `xs`; n is at `axis`.

    Examples
    --------
    >>> def cell(h, x):  # doctest: +SKIP
    ...     h = layers.tanh(layers.fc(layers.concat([x, h], axis=1), 16))
    ...     return h, h
    >>> last, states = layers.scan(cell, h0, words)  # doctest: +SKIP
    """
    first = _check_variables("scan", "init", init)
    given = None if xs is None else _check_variables("scan", "xs", xs)
    checks.check_callable("scan", "body", body)
    attrs = _check_turns(length, reverse, checkpoint_every)
    axis = checks.check_int("scan", "axis", axis)
    layer = begin("scan", name)
    sequences: list[ow.Variable] = []
    if given is not None:
        sequences = [_to_front(layer.block, x, axis) for x in given.variables]
    elif checkpoint_every is not None and length is not None:
        sequences = [_append_empty(layer, length)]
    block = ow.default_main_program().create_block()
    carry = _enter(block, layer, "carry", first.variables, 0)
    elements = _enter(block, layer, "x", sequences, 1)
    result = body(first.shaped(carry), None if given is None else given.shaped(elements))
    ow.default_main_program().rollback()
    last, turned = _split("scan: body must return (carry, out)", result)
    after = _check_carry("scan", first, last)
    out = None if turned is None else _check_result("scan", "the out of body", turned)
    finals = _names(layer, "final", len(after))
    outs = [] if out is None else _names(layer, "out", len(out.variables))
    stacked = outs if axis == 0 else [f"{name}/by_turn" for name in outs]
    layer.block.append_op(
        "scan",
        inputs={"init": first.variables, "xs": sequences},
        outputs={"final": finals, "out": stacked},
        attrs=attrs
        | {
            "body": block,
            "body_init": _names_of(carry),
            "body_xs": _names_of(elements),
            "body_final": _names_of(after),
            "body_out": [] if out is None else _names_of(out.variables),
        },
    )
    carried = first.shaped([layer.block.var(n) for n in finals])
    if out is None:
        return carried, None
    placed = [
        _from_front(layer.block, layer.block.var(by_turn), axis, name)
        for by_turn, name in zip(stacked, outs, strict=True)
    ]
    return carried, out.shaped(placed)


def _check_turns(
    length: int | None, reverse: bool, checkpoint_every: int | None
) -> dict[str, object]:
    """Check and return the given attributes of ``scan``."""
    attrs: dict[str, object] = {"reverse": checks.check_bool("scan", "reverse", reverse)}
    for name, value, least in (("length", length, 0), ("checkpoint_every", checkpoint_every, 1)):
        if value is not None:
            attrs[name] = checks.check_int("scan", name, value, at_least=least)
    return attrs


@ow.transaction()
def while_loop(
    condition: Callable[..., object],
    body: Callable[..., object],
    init: Variables,
    max_steps: int | None = None,
    name: str | None = None,
    stack: bool = False,
) -> Carry | tuple[Carry, Carry]:
    """Append a loop that runs while a condition holds, like `jax.lax.while_loop`.

    A run computes ``while condition(carry): carry = body(carry)``, with `init` as the first carry.

    Parameters
    ----------
    condition : callable
        ``condition(carry) -> Variable``, a one-element bool. It is called twice, for the first
        iteration and for later iterations. A function with one parameter per variable gets them as
        separate arguments: ``lambda i, a: i < 10``.
    body : callable
        ``body(carry) -> carry``, in the form of `init`, with the same shapes and dtypes. It is
        called as `condition` is.
    init : Variable, or list or tuple of them
        The carry of the first iteration.
    max_steps : int, optional
        The largest number of iterations; a run that needs more fails. Gradients need it: their
        inputs are saved for this many iterations.
    name : str, optional
        The prefix of the layer's variable names.
    stack : bool
        Whether ``body(carry) -> (carry, out)`` also returns an output of every iteration: a
        variable or a list of variables, whose shape is the same in all iterations.

    Returns
    -------
    carry : Variable or tuple of Variable
        The last carry, in the form of `init`.
    out : Variable or tuple of Variable, [n, ...]
        With `stack`: the results of the n iterations, in order; n is known only after the loop.
    """
    first = _check_variables("while_loop", "init", init)
    checks.check_callable("while_loop", "condition", condition)
    checks.check_callable("while_loop", "body", body)
    condition, body = _taking_carry(condition, first), _taking_carry(body, first)
    attrs: dict[str, object] = {}
    if max_steps is not None:
        attrs["max_steps"] = checks.check_int("while_loop", "max_steps", max_steps, at_least=0)
    layer = begin("while_loop", name)
    begins = _check_condition(condition(first.shaped(first.variables)))
    block = ow.default_main_program().create_block()
    carry = _enter(block, layer, "carry", first.variables, 0)
    result, out = body(first.shaped(carry)), None
    if checks.check_bool("while_loop", "stack", stack):
        result, turned = _split("while_loop: body must return (carry, out) with stack=True", result)
        out = _check_result("while_loop", "the out of body", turned)
    after = _check_carry("while_loop", first, result)
    again = _check_condition(condition(first.shaped(after)))
    ow.default_main_program().rollback()
    outs = [layer.out] if first.is_single else _names(layer, "out", len(after))
    stacked = [] if out is None else _names(layer, "stacked", len(out.variables))
    steps = [layer.part("steps")] if stacked else []
    layer.block.append_op(
        "while_loop",
        inputs={"condition": begins, "init": first.variables},
        outputs={"out": outs, "stacked": stacked, "steps": steps},
        attrs=attrs
        | {
            "body": block,
            "body_init": _names_of(carry),
            "body_out": _names_of(after),
            "body_condition": again.name,
            "body_stacked": [] if out is None else _names_of(out.variables),
        },
    )
    last = first.shaped([layer.block.var(n) for n in outs])
    if out is None:
        return last
    taken = [layer.block.var(n) for n in stacked]
    if max_steps is not None:
        bounds = {"axes": [0], "starts": [0], "ends": steps}
        taken = [append(layer.block, "slice", {"x": given}, bounds) for given in taken]
    return last, out.shaped(taken)


def _taking_carry(function: Callable[..., object], first: _Given) -> Callable[..., object]:
    """Return a function of the carry; if it has n parameters, they get n variables separately."""
    count = len(first.variables)
    if first.is_single or count == 1 or _takes(function, 1) or not _takes(function, count):
        return function
    return lambda carry: function(*carry)


def _takes(function: Callable[..., object], count: int) -> bool:
    """Return whether a function can be called with this number of arguments."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except (TypeError, ValueError):  # ValueError: a builtin without a signature
        return False
    return True


def _to_front(block: ow.Block, x: ow.Variable, axis: int) -> ow.Variable:
    """Append x with `axis` first."""
    if axis == 0:
        return x
    axis, rank = _check_axis(x, axis)
    order = [axis, *[other for other in range(rank) if other != axis]]
    return append(block, "transpose", {"x": x}, {"axes": order})


def _from_front(block: ow.Block, x: ow.Variable, axis: int, name: str) -> ow.Variable:
    """Append x with its first axis at `axis`."""
    if axis == 0:
        return x
    axis, rank = _check_axis(x, axis)
    order = list(range(1, rank))
    order.insert(axis, 0)
    return append(block, "transpose", {"x": x}, {"axes": order}, name=name)


def _check_axis(x: ow.Variable, axis: int) -> tuple[int, int]:
    """Return an axis as a non-negative index, and the number of axes."""
    rank = 0 if x.shape is None else len(x.shape)
    if not -rank <= axis < rank:
        raise AttributeValueError(
            f"scan: axis must be one of the known axes of {x!r}, got {axis}; 0 is the first axis"
        )
    return axis % rank, rank


def _append_empty(layer: Layer, length: int) -> ow.Variable:
    """Return a sequence without data, used only for its number of elements."""
    name = layer.part("turns")
    attrs = {"shape": [length, 0], "dtype": "float32"}
    layer.block.append_op("fill", outputs={"out": name}, attrs=attrs)
    return layer.block.var(name)


def _names_of(variables: Iterable[ow.Variable]) -> list[str]:
    return [variable.name for variable in variables]


def _names(layer: Layer, what: str, count: int) -> list[str]:
    return [layer.part(what if count == 1 else f"{what}_{i}") for i in range(count)]


def _enter(
    block: ow.Block, layer: Layer, what: str, like: Sequence[ow.Variable], n_dropped: int
) -> list[ow.Variable]:
    """Return variables of the block that replace outer variables, or elements of them."""
    names = _names(layer, what, len(like))
    entered = []
    for name, variable in zip(names, like, strict=True):
        shape = variable.shape
        if shape is None or len(shape) < n_dropped:
            raise AttributeValueError(
                f"{layer.name}: {what} must have at least {n_dropped} axes, known when the loop is "
                f"appended, got {variable!r}"
            )
        entered.append(block.create_var(name, shape[n_dropped:], variable.dtype))
    return entered


def _check_variables(who: str, name: str, value: object) -> _Given:
    """Check one or several given variables, and return them with their form."""
    if isinstance(value, list | tuple):
        items = [checks.check_variable(who, f"each of {name}", item) for item in value]
        return _Given(tuple(items), False)
    return _Given((checks.check_variable(who, name, value),), True)


def _split(rule: str, result: object) -> tuple[object, object]:
    """Return the carry and the output of an iteration."""
    if not isinstance(result, tuple | list) or len(result) != 2:
        _raise_result(rule, result)
    return result[0], result[1]


def _check_carry(who: str, first: _Given, value: object) -> tuple[ow.Variable, ...]:
    after = _check_result(who, "the carry of body", value)
    if after.is_single != first.is_single or len(after.variables) != len(first.variables):
        wanted = "one variable" if first.is_single else f"a list of {len(first.variables)}"
        raise AttributeValueError(
            f"{who}: body must return a carry in the form of init, {wanted}, got {value!r}"
        )
    return _follow(after.variables, first.variables)


def _follow(after: Sequence[ow.Variable], before: Sequence[ow.Variable]) -> tuple[ow.Variable, ...]:
    """Return the carry; in mixed precision it keeps its initial dtypes."""
    if find_policy() is None:
        return tuple(after)
    return tuple([cast_to(x, like.dtype) for x, like in zip(after, before, strict=True)])


def _check_result(who: str, what: str, value: object) -> _Given:
    if isinstance(value, ow.Variable):
        return _Given((value,), True)
    if not isinstance(value, list | tuple) or not all(isinstance(v, ow.Variable) for v in value):
        _raise_result(f"{who}: {what} must be a variable or a list of variables", value)
    return _Given(tuple(value), False)


def _check_condition(value: object) -> ow.Variable:
    if not isinstance(value, ow.Variable):
        _raise_result("while_loop: condition must return a variable", value)
    return value


def _raise_result(rule: str, value: object) -> NoReturn:
    raise AttributeTypeError(f"{rule}, got {value!r}; end it with `return`")
