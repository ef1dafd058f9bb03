"""The rows of all installed packages for translating ATen operators to opwright operators."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import torch

from opwright import Context, current_context

if TYPE_CHECKING:
    from opwright_torch.translate.translator import Translator, Value

Row = Callable[..., Any]
TOPIC: Final = "torch"


class Decline(Exception):  # noqa: N818  # the translator catches it, so users never see it
    """Raised by a row, with the reason, for arguments that opwright operators do not support."""


class Rows(dict[str, Row]):
    """A table under construction: ``@ROWS.row("aten::relu", "aten::relu_")`` adds a function."""

    def row(self, *names: str) -> Callable[[Row], Row]:
        """Return a decorator that adds its function under these names."""

        def add(function: Row) -> Row:
            self.update(dict.fromkeys(names, function))
            return function

        return add


def find_row(operator: torch._ops.OpOverload, prefix: str = "") -> Row | None:
    """Return the row of an overload or of its name, or None if neither exists.

    Rows with the prefix ``complex `` are used if an argument is complex. A row named
    ``opwright::`` is used for all other opwright operators, including ``opwright_acme::swish``.
    """
    context = current_context()
    rows = _all_rows(context, context.epoch.now)
    name = prefix + operator.name()
    ours = f"{name.partition('::')[0].partition('_')[0]}::"
    return rows.get(name) or rows.get(name.partition(".")[0]) or rows.get(ours)


@lru_cache(maxsize=4)
def _all_rows(context: Context, epoch: int) -> dict[str, Row]:
    """Merge all tables into one; if a name has several rows, the package that sorts last wins.

    `epoch` is part of the cache key: it changes when packages are installed.
    """
    tables = [entry.load() for entry in context.annexes.entries(TOPIC)]
    return dict(ChainMap(*reversed(tables)))


def apply_row(row: Row | None, t: Translator, named: Mapping[str, Value]) -> Value:
    """Call a row, or decline if it does not accept an argument of this overload."""
    if row is None:
        raise Decline("no table has a row for it")
    try:
        signature(row).bind(t, **named)
    except TypeError as reason:
        raise Decline(f"its row does not accept these arguments: {reason}") from None
    return row(t, **named)


def bind(target: Any, arguments: tuple[Value, ...], named: Mapping[str, Value]) -> dict[str, Value]:
    """Return the arguments of an ATen operator by schema name, including defaults."""
    bound: dict[str, Value] = {}
    for i, argument in enumerate(target._schema.arguments):
        if i < len(arguments) and not argument.kwarg_only:
            bound[_name(argument)] = arguments[i]
        elif argument.name in named:
            bound[_name(argument)] = named[argument.name]
        else:
            bound[_name(argument)] = argument.default_value
    return bound


def _name(argument: Any) -> str:
    return "input" if argument.name == "self" else str(argument.name)
