"""The rows of all installed packages for translating ONNX operators to opwright operators."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from opwright import Context, current_context

Function = Callable[..., Any]
Data = tuple[int, str, Mapping[str, str]]
"""The first opset, the opwright operator type, and its attribute names by ONNX attribute name."""

Row = Function | Data
TOPIC: Final = "onnx"


class Rows(dict[str, Row]):
    """A table under construction: ``@ROWS.row("Relu")`` adds a function.

    A key is the name of an operator, prefixed by its domain if that is not the ONNX domain:
    ``"com.microsoft::Gelu"``. In tables for writing, a key is an operator type: ``"relu"``.
    """

    def row(self, *names: str) -> Callable[[Function], Function]:
        """Return a decorator that adds its function under these names."""

        def add(function: Function) -> Function:
            self.update(dict.fromkeys(names, function))
            return function

        return add


def find_row(domain: str, name: str) -> Row | None:
    """Return the row of an operator, or None."""
    context = current_context()
    return _find(context, context.epoch.now, f"{domain}::{name}" if domain else name)


@lru_cache(maxsize=1024)
def _find(context: Context, epoch: int, key: str) -> Row | None:
    return all_rows(context, epoch).get(key)


@lru_cache(maxsize=4)
def all_rows(context: Context, epoch: int) -> Mapping[str, Row]:
    """Merge all tables; if a name has several rows, the row of the annex that sorts last is used.

    `epoch` is part of the cache key: it changes when packages are installed.
    """
    tables = [entry.load() for entry in context.annexes.entries(TOPIC)]
    return ChainMap(*reversed(tables))
