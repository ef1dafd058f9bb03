"""Reports unknown arguments of a function, and suggests the nearest known name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from opwright.errors import AttributeTypeError
from opwright.plugin import check_arguments
from opwright.plugin import suggest_arguments as suggest

__all__ = ["answer", "check_arguments", "suggest"]


def answer(owner: Any, answers: Mapping[str, str]) -> None:
    """Make the constructor of a class suggest the right name for arguments of other frameworks."""
    constructor = suggest(owner.__init__)
    known = inspect.signature(constructor).parameters

    @functools.wraps(constructor)
    def checked(self: object, *args: Any, **options: Any) -> None:
        for name in answers.keys() & options.keys() - known.keys():
            raise AttributeTypeError(
                f"{type(self).__name__}: unknown argument, got {name!r}; {answers[name]}"
            )
        constructor(self, *args, **options)

    owner.__init__ = checked
