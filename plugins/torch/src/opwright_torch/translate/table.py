"""The rows of all installed packages: how an ATen operator is written with opwright's."""

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


class Decline(Exception):  # noqa: N818  # it is caught by the translator and never reaches users
    """Raised by a row, with the reason, for arguments without a counterpart in our operators."""


class Rows(dict[str, Row]):
    """A table under construction: ``@ROWS.row("aten::relu", "aten::relu_")`` adds a function."""

    def row(self, *names: str) -> Callable[[Row], Row]:
        """Return a decorator that adds its function under these names."""

        def add(function: Row) -> Row:
            self.update(dict.fromkeys(names, function))
            return function

        return add


def find_row(operator: torch._ops.OpOverload) -> Row | None:
    """Return the row of an overload or of its name, or None if neither exists.

    A row named ``opwright::`` is for all other operators of opwright, ``opwright_acme::swish`` too.
    """
    context = current_context()
    rows = _all_rows(context, context.epoch.now)
    name = operator.name()
    ours = f"{name.partition('::')[0].partition('_')[0]}::"
    return rows.get(name) or rows.get(name.partition(".")[0]) or rows.get(ours)


@lru_cache(maxsize=4)
def _all_rows(context: Context, epoch: int) -> dict[str, Row]:
    """Merge all tables into one; among rows of one name, the package that sorts last wins.

    `epoch` changes when packages are installed, so the table is rebuilt.
    """
    tables = [entry.load() for entry in context.annexes.entries(TOPIC)]
    return dict(ChainMap(*reversed(tables)))


def apply_row(row: Row | None, t: Translator, named: Mapping[str, Value]) -> Value:
    """Call a row; it declines if it lacks an argument of this overload."""
    if row is None:
        raise Decline("no row of a table names it")
    try:
        signature(row).bind(t, **named)
    except TypeError as reason:
        raise Decline(f"its row takes other arguments: {reason}") from None
    return row(t, **named)


def bind(target: Any, arguments: tuple[Value, ...], named: Mapping[str, Value]) -> dict[str, Value]:
    """Return the arguments of an ATen operator by the names of its schema, defaults included."""
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
