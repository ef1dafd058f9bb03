"""Dynamic dimensions of model inputs, and the conditions that the model sets on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import Dim
from torch.fx import Graph
from torch.utils._pytree import tree_flatten_with_path, tree_leaves, tree_map
from torch.utils._sympy.functions import IntTrueDiv, ToFloat

from opwright.errors import SettingError
from opwright_torch.translate.sizes import as_size

TORCH: Final = Path(torch.__file__).parent
HERE: Final = Path(__file__).parents[1]

_FLOATS: Final = (ToFloat, IntTrueDiv)


class Dimensions:
    """The argument `dynamic` of `to_program`.

    Parameters
    ----------
    arguments : mapping
        Example inputs by the argument of ``forward``.
    dynamic : object
        True, or ``dynamic_shapes`` of `torch.export`, which can also contain strings.
    """

    def __init__(self, arguments: Mapping[str, Any], dynamic: Any) -> None:
        self._named: list[tuple[str, int, Any]] = []  # the feed, an axis, and a name or a Dim
        self.given: Any = None
        if dynamic is True:
            self.given = {name: _each(value, Dim.AUTO) for name, value in arguments.items()}
        elif dynamic:
            self.given = self._read(arguments, dynamic)

    def _read(self, arguments: Mapping[str, Any], dynamic: Any) -> Any:
        if isinstance(dynamic, (tuple, list)):
            if len(dynamic) > len(arguments):
                raise SettingError(
                    f"to_program: dynamic must have at most one entry per input, got "
                    f"{len(dynamic)} for {', '.join(arguments)}"
                )
            dynamic = dict(zip(arguments, dynamic))
        if not isinstance(dynamic, Mapping):
            raise SettingError(
                "to_program: dynamic must be True, or a dict, tuple or list by input, got "
                f"{dynamic!r}; write dynamic={{{next(iter(arguments), 'x')!r}: {{0: 'batch'}}}}"
            )
        unknown = [name for name in dynamic if name not in arguments]
        if unknown:
            raise SettingError(
                f"to_program: dynamic must name inputs that were given, got {unknown[0]!r}; there "
                f"are {', '.join(arguments)}"
            )
        return {n: self._spell(value, dynamic.get(n), n) for n, value in arguments.items()}

    def _spell(self, value: Any, given: Any, path: str) -> Any:
        """Return the dynamic dimensions of an input in the form of `torch.export`."""
        if given is None:
            return _each(value, None)
        if isinstance(value, torch.Tensor):
            return self._spell_axes(value.ndim, given, path)
        if isinstance(value, Mapping) and isinstance(given, Mapping):
            unknown = [name for name in given if name not in value]
            if not unknown:
                return {n: self._spell(v, given.get(n), f"{path}.{n}") for n, v in value.items()}
            raise SettingError(
                f"to_program: dynamic must name keys of {path}, got {unknown[0]!r}; there are "
                f"{', '.join(map(str, value))}"
            )
        are_lists = isinstance(value, (tuple, list)) and isinstance(given, (tuple, list))
        if are_lists and len(given) == len(value):
            pairs = enumerate(zip(value, given))
            return type(value)([self._spell(v, g, f"{path}.{i}") for i, (v, g) in pairs])
        if isinstance(value, (tuple, list, Mapping)) or len(tree_leaves(value)) < 2:
            raise SettingError(
                f"to_program: dynamic must have the structure of the inputs, got {given!r} for "
                f"{path}, {_describe(value)}"
            )
        return self._spell_structure(given, path)

    def _spell_structure(self, given: Any, path: str) -> Any:
        """Return the dimensions of a structure of another type, registered as a PyTorch pytree."""
        for keys, dim in tree_flatten_with_path(given)[0]:
            if isinstance(dim, (str, Dim)) and keys:
                *parts, axis = (str(getattr(key, "key", getattr(key, "idx", key))) for key in keys)
                self._named.append((".".join([path, *parts]), int(axis), dim))
        return tree_map(lambda dim: Dim.AUTO if isinstance(dim, str) else dim, given)

    def _spell_axes(self, rank: int, given: Any, path: str) -> dict[int, Any]:
        if isinstance(given, (tuple, list)) and len(given) == rank:
            given = dict(enumerate(given))
        if not isinstance(given, Mapping):
            raise SettingError(
                f"to_program: dynamic must be a dict by axis, or a list of all {rank} axes, got "
                f"{given!r} for {path}; write {{0: 'batch'}}"
            )
        spelled: dict[int, Any] = {}
        for axis, dim in given.items():
            if not isinstance(axis, int) or not -rank <= axis < rank:
                raise SettingError(
                    f"to_program: dynamic must name axes in [{-rank}, {rank}) of {path}, got "
                    f"{axis!r}"
                )
            if isinstance(dim, (str, Dim)):
                self._named.append((path, axis % rank, dim))
            elif not (dim is None or isinstance(dim, (int, type(Dim.AUTO)))):
                raise SettingError(
                    f"to_program: dimensions must be names or torch.export.Dim, got {dim!r} for "
                    f"axis {axis} of {path}"
                )
            is_named = isinstance(dim, str)
            spelled[axis % rank] = Dim.AUTO if is_named else Dim.STATIC if dim is None else dim
        return spelled

    def conditions(self, shapes: Mapping[str, Any], graph: Graph) -> list[Any]:
        """Return the conditions on sizes: the given bounds and the guards of the model.

        Guards in PyTorch's own code, for example on strides, are skipped, because they do not
        affect results. Guards against a size of 1 are skipped because they rarely affect results.

        Parameters
        ----------
        shapes : mapping
            The shapes of the feeds.
        graph : Graph
            The captured graph.

        Raises
        ------
        SettingError
            If the model fixes a size, or converts a size to a float, since the graph stores its
            value for the example inputs.
        """
        env = _find_env(graph)
        symbols: dict[str, sympy.Expr] = {}
        found: list[Any] = []
        for feed, axis, name in self._named:
            if feed not in shapes:
                continue
            size = shapes[feed][axis]
            if isinstance(as_size(size), int):
                raise SettingError(
                    f"to_program: dimension {axis} of {feed} must be {size} for this "
                    f"model, got dynamic={name!r}; remove it from dynamic="
                    f"{_fixing_line(env, size)}"
                )
            expr = size.node.expr
            if isinstance(name, str):
                found += _differ(symbols.setdefault(name, expr), expr)
            else:
                found += _bounds(expr, name)
        if env is not None:
            _refuse_floats(env, shapes, graph)
            found += _decisions(env)
        return list(dict.fromkeys(found))


def _find_env(graph: Graph) -> Any:
    """Return the environment of the symbols of a graph, or None for a graph without inputs."""
    values = (node.meta["val"] for node in graph.nodes if node.op == "placeholder")
    modes = (value.fake_mode for value in values if isinstance(value, FakeTensor))
    return next((mode.shape_env for mode in modes), None)


def _fixing_line(env: Any, size: int) -> str:
    """Return the model's source line, after a line break, that fixes a dimension at a size.

    Such a line converts a size to a Python number, as ``len(x)`` does.
    """
    for guard in env.guards:
        place = guard.sloc.framework_loc
        if isinstance(guard.expr, sympy.Eq) and size in guard.expr.args and not _is_within(place):
            return f"\n{_show(place)}"
    return ""


def _each(value: Any, dim: Any) -> Any:
    """Return the same kind of dimension for every axis, in the structure of `torch.export`."""
    if isinstance(value, torch.Tensor):
        return None if dim is None else dict.fromkeys(range(value.ndim), dim)
    if isinstance(value, dict):
        return {name: _each(item, dim) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)([_each(item, dim) for item in value])
    leaves = tree_leaves(value)
    if len(leaves) == 1 and leaves[0] is value:
        return None
    return [_each(leaf, dim) for leaf in leaves]


def _describe(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a dict with the keys {', '.join(map(str, value))}"
    kind = type(value).__name__
    return f"a {kind} of {len(value)}" if isinstance(value, (tuple, list)) else f"of type {kind}"


def _differ(one: sympy.Expr, other: sympy.Expr) -> list[Any]:
    return [] if one == other else [sympy.Eq(one, other)]


def _bounds(expr: sympy.Expr, dim: Any) -> Iterator[Any]:
    low, high = getattr(dim, "min", 0), getattr(dim, "max", None)
    if low:
        yield sympy.Ge(expr, low)
    if high is not None and high < 2**31:
        yield sympy.Le(expr, high)


def _refuse_floats(env: Any, shapes: Mapping[str, Any], graph: Graph) -> None:
    """Refuse floats computed from sizes, since the graph stores their values as constants."""
    for guard in env.guards:
        expr = guard.expr
        made = [part for part in sympy.preorder_traversal(expr) if isinstance(part, _FLOATS)]
        symbols = {symbol for part in made for symbol in part.free_symbols}
        place = guard.sloc.framework_loc
        if not symbols or (_is_within(place) and not isinstance(expr, sympy.Eq)):
            continue
        sizes = [
            f"dimension {axis} of {feed}"
            for feed, shape in shapes.items()
            for axis, size in enumerate(shape)
            if isinstance(size, torch.SymInt) and size.node.expr in symbols
        ]
        raise SettingError(
            f"to_program: values computed from {sizes[0] if sizes else 'a dimension'} must be "
            f"integers, got {expr}, which holds only for the example; omit the dimension from "
            f"dynamic=, or make the number a tensor\n{_line(guard, graph)}"
        )


def _line(guard: Any, graph: Graph) -> str:
    """Return the model's source line that converts a size to a number or uses the number."""
    place = guard.sloc.framework_loc
    if not _is_within(place):
        return _show(place)
    numbers = [arg for arg in guard.expr.args if arg.is_number]
    for node in graph.nodes:
        held = tree_leaves([node.args, node.kwargs])
        if any(type(value) in (int, float) and value in numbers for value in held):
            lines = (node.meta.get("stack_trace") or "").rstrip().splitlines()[-2:]
            return "\n".join(f"    {line.strip()}" for line in lines)
    return f"    {place}"


def _show(place: Any) -> str:
    return f'    File "{place.filename}", line {place.lineno}, in {place.name}\n    {place.line}'


def _is_within(place: Any) -> bool:
    """Return whether a line belongs to PyTorch or this package."""
    return place is None or any(map(Path(place.filename).is_relative_to, (TORCH, HERE)))


def _decisions(env: Any) -> Iterator[Any]:
    """Yield the conditions that code outside PyTorch checks."""
    for guard in env.guards:
        place = guard.sloc.framework_loc
        if _is_within(place):
            continue
        condition = guard.expr.xreplace(env.replacements)
        if condition not in (True, sympy.true) and not _holds_from_two_on(condition):
            yield condition


def _holds_from_two_on(condition: Any) -> bool:
    shifted = {
        symbol: sympy.Dummy(positive=True, integer=True) + 1 for symbol in condition.free_symbols
    }
    return bool(condition.subs(shifted) == sympy.true)
