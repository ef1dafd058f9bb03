"""``opwright.ops`` has every discovered operator as a function of variables or arrays.

``opwright.ops.softmax(x, axis=-1)`` appends to the current block if ``x`` is a `Variable` and
computes immediately if it is an array. Operators of a third-party plugin are in the namespace of
its name: ``opwright.ops.acme.swish``. Functions are created at first use, so plugins appear
automatically.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from opwright import _runtime
from opwright.run.ops.namespace import Finder

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """For type checkers, any operator; `opwright stubs` writes the signatures."""


sys.modules[__name__].__class__ = _runtime.Namespace
Finder("", globals())
