"""The rows of all installed packages: how an ATen operator is written with ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import torch

from opwright import Context, current_context

Row = Callable[..., Any]
TOPIC: Final = "torch"


class Rows(dict[str, Row]):
    """A table under construction: ``@ROWS.row("aten::relu", "aten::relu_")`` adds a function."""

    def row(self, *names: str) -> Callable[[Row], Row]:
        """Return a decorator that adds its function under these names."""

        def add(function: Row) -> Row:
            for name in names:
                self[name] = function
            return function

        return add


def find_row(operator: torch._ops.OpOverload) -> Row | None:
    """Return the row of an overload, else that of all overloads of its name, else None.

    A row named ``opwright::`` is that of all other operators of ours, ``opwright_acme::swish`` too.
    """
    context = current_context()
    rows = _all_rows(context, context.epoch.now)
    name = operator.name()
    ours = f"{name.partition('::')[0].partition('_')[0]}::"
    return rows.get(name) or rows.get(name.partition(".")[0]) or rows.get(ours)


@lru_cache(maxsize=4)
def _all_rows(context: Context, epoch: int) -> dict[str, Row]:
    """Return one table; of rows for one name, that of the package which sorts last counts.

    The epoch rises when a package was installed.
    """
    rows: dict[str, Row] = {}
    for entry in context.annexes.entries(TOPIC):
        rows.update(entry.load())
    return rows
