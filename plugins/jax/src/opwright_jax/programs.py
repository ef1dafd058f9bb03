"""`function` converts a complete opwright program to a JAX function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import opwright as ow
from opwright import LoadedProgram
from opwright.errors import DtypeError, FeedError, ProgramError, SettingError, ShapeError
from opwright.op import format_shape, shapes_match
from opwright.plugin import suggest_arguments
from opwright.runtime import hold
from opwright.vocabulary import STEP
from opwright_jax.calls import Whole
from opwright_jax.dtypes import (
    NARROW,
    is_array,
    is_strong,
    is_wide,
    meta_of,
    promote,
    read_array,
    to_jax,
)
from opwright_jax.functions import compile_what


@suggest_arguments
def function(program: Any, feed: Any = None, fetch: Any = None) -> Callable[..., Any]:
    """Return a JAX function ``f(parameters, *inputs)`` that runs a program as one custom call.

    The function can be called directly, or inside `jax.jit`, `jax.grad`, `jax.vmap` and
    `jax.lax.scan`. A plan is created for each combination of shapes, and runs without the GIL. The
    function is pure: parameters are arguments, which `jax.grad` can differentiate.

    Parameters
    ----------
    program : LoadedProgram or Program
        The result of `opwright.load`, `opwright_torch.to_program` or `opwright_onnx.load`, which
        predicts; or a Program, which is run unchanged. Later changes of the program have no effect.
    feed : sequence, optional
        For each input, a variable or its name, or a container of these that is nested like the
        input. By default an input for each feed of a `LoadedProgram`, in order.
    fetch : pytree of Variable or str, optional
        The results or their names, nested like the returned containers. By default, a tuple of the
        fetches of a `LoadedProgram`.

    Returns
    -------
    callable
        ``f(parameters, *inputs)``; inputs may also be passed by the names in `feed`. `parameters`
        is a dict by name of all persistable variables on which the results depend, as returned by
        ``loaded.parameters()``. Nested dicts represent names with dots, such as ``{"fc":
        {"weight": w}}`` for ``"fc.weight"``.

    Raises
    ------
    SettingError
        Without `feed` and `fetch` for a Program.
    ProgramError
        For a program that writes persistable variables, such as parameters or running statistics,
        or with a random operator that is not given its step.
    VariableNotFoundError
        For a name that is not a variable of the program.
    FeedError, DtypeError, ShapeError
        By the call, for arguments that do not fit the program.
    """
    if isinstance(program, LoadedProgram):
        feed = [spec.name for spec in program.feeds] if feed is None else feed
        fetch = tuple(spec.name for spec in program.fetches) if fetch is None else fetch
        program = program.program.clone(for_inference=True)
    if not isinstance(program, ow.Program) or feed is None or fetch is None:
        raise SettingError(
            f"function: program must be a LoadedProgram, or a Program with feed and fetch, got "
            f"{type(program).__name__} with feed={feed!r} and fetch={fetch!r}; name the variables"
        )
    feeds = [feed] if isinstance(feed, (str, ow.Variable)) else list(feed)
    return _Function(program, feeds, fetch)


class _Function:
    """Calls a program with parameters and inputs."""

    def __init__(self, program: ow.Program, feed: Sequence[Any], fetch: Any) -> None:
        results, self._fetch_tree = jax.tree_util.tree_flatten(fetch)
        self._results = tuple(map(_name, results))
        self._feed = jax.tree.map(_name, list(feed))
        self._feed_trees = [jax.tree_util.tree_structure(item) for item in self._feed]
        self._feeds = tuple(jax.tree_util.tree_leaves(self._feed))
        block = program.global_block()
        for name in (*self._results, *self._feeds):
            block.get_var(name, "function")
        part = program.prune(list(dict.fromkeys(self._results)))
        block = part.global_block()
        self._variables = {name: block.var(name) for name in block.vars}
        read = ow.names_read_first(block.ops)
        self._parameters = tuple(
            name for name in read if block.var(name).persistable and name not in self._feeds
        )
        self._check(block, read)
        self._bytes = part.to_proto().SerializeToString(deterministic=True)
        self.__name__ = self.__qualname__ = "opwright_program"

    def _check(self, block: ow.Block, read: Sequence[str]) -> None:
        written = {name for op in block.ops for name in op.output_names()}
        state = sorted(written.intersection((*self._feeds, *self._parameters)))
        if state:
            raise ProgramError(
                f"function: a program must not change its arguments, got {state[0]!r}; give "
                "program.clone(for_inference=True), or update parameters in JAX"
            )
        if STEP in read:
            raise ProgramError(
                f"function: random operators must be given their step, got one that reads {STEP!r},"
                " since JAX does not count runs; append it with step=variable, where variable is "
                "an int64 [1] feed, or give program.clone(for_inference=True)"
            )
        missing = [n for n in read if n not in self._feeds and n not in self._parameters]
        if missing:
            raise FeedError(
                f"function: feed must name every input of the results, got no {missing[0]!r}; "
                f"feed={[*self._feeds, *missing]}"
            )

    def __repr__(self) -> str:
        return f"<opwright program {', '.join(self._feeds)} -> {', '.join(self._results)}>"

    def __call__(self, parameters: Mapping[str, Any], *inputs: Any, **others: Any) -> Any:
        """Compute the results; see `function`."""
        given = self._place(inputs, others) if others else inputs
        named = self._name_parameters(parameters) | self._name_inputs(given)
        known = [name for name in (*self._parameters, *self._feeds) if name in self._variables]
        arguments = tuple(dict.fromkeys(known))
        values = [self._convert(name, named[name]) for name in arguments]
        whole = Whole(self._bytes, arguments, self._results, is_wide())
        results = compile_what(whole)(*values)
        return jax.tree_util.tree_unflatten(self._fetch_tree, results)

    def _name_parameters(self, parameters: Any) -> dict[str, Any]:
        named = dict(_flatten(parameters, ""))
        missing = [name for name in self._parameters if name not in named]
        if missing:
            raise FeedError(
                f"function: parameters must have {', '.join(map(repr, self._parameters))}, got no "
                f"{missing[0]!r}; give a dict with all of them, as loaded.parameters() returns it"
            )
        unknown = [name for name in named if name not in self._parameters]
        if unknown:
            raise FeedError(
                f"function: parameters must belong to the program, got {unknown[0]!r}; they are "
                f"{', '.join(map(repr, self._parameters)) or 'none'}"
            )
        return named

    def _place(self, inputs: Sequence[Any], others: Mapping[str, Any]) -> list[Any]:
        """Return the inputs in the order of `feed`; some of them are given by name."""
        rest = [str(item) for item in self._feed][len(inputs) :]
        if sorted(rest) != sorted(others):
            raise FeedError(
                f"function: inputs are {', '.join(map(repr, self._feed))}, got {len(inputs)} by "
                f"position and {', '.join(map(repr, others))} by name"
            )
        return [*inputs, *(others[name] for name in rest)]

    def _name_inputs(self, inputs: Sequence[Any]) -> dict[str, Any]:
        if len(inputs) != len(self._feed):
            raise FeedError(
                f"function: inputs are {', '.join(map(repr, self._feed))}, got {len(inputs)} of "
                f"them; call f(parameters, {', '.join(map(str, self._feed))})"
            )
        named: dict[str, Any] = {}
        for i, (item, tree, value) in enumerate(
            zip(self._feed, self._feed_trees, inputs, strict=True)
        ):
            leaves, given = jax.tree_util.tree_flatten(value)
            if given != tree:
                raise FeedError(
                    f"function: input {i} must be nested as {item!r}, got {given}; pass arrays in "
                    "the same containers"
                )
            named.update(zip(jax.tree_util.tree_leaves(item), leaves, strict=True))
        return named

    def _convert(self, name: str, value: Any) -> Any:
        """Return a value as an array, after checking its dtype and shape against a variable."""
        variable = self._variables[name]
        dtype = variable.dtype if is_wide() else NARROW.get(variable.dtype, variable.dtype)
        value = read_array(value)
        if not is_array(value):
            value = hold(value, dtype, f"function: {name}", "the variable")
        elif not is_strong(value):
            value = promote(value, dtype)
        array = jnp.asarray(value)
        meta = meta_of(f"function: {name}", array)
        if array.dtype != to_jax(dtype):
            raise DtypeError(
                f"function: {name} must be {variable.dtype}, got {meta.dtype}; cast it"
            )
        if variable.shape is not None and not shapes_match(variable.shape, meta.shape):
            raise ShapeError(
                f"function: {name} must have shape {format_shape(variable.shape)}, got "
                f"{format_shape(meta.shape)}"
            )
        return array


def _name(variable: Any) -> str:
    """Return the name of a Variable; a name is returned unchanged."""
    return variable.name if isinstance(variable, ow.Variable) else str(variable)


def _flatten(parameters: Any, prefix: str) -> list[tuple[str, Any]]:
    if not isinstance(parameters, Mapping):
        raise FeedError(
            "function: parameters must be a dict of arrays by name, got "
            f"{type(parameters).__name__}; call f(parameters, *inputs)"
        )
    pairs: list[tuple[str, Any]] = []
    for key, value in parameters.items():
        name = f"{prefix}{key}"
        pairs += _flatten(value, f"{name}.") if isinstance(value, Mapping) else [(name, value)]
    return pairs
