"""``opwright.ops``: every discovered operator as a function, for variables and for arrays.

``opwright.ops.softmax(x, axis=-1)`` appends to the current block where ``x`` is a `Variable` and
computes at once where it is an array. A third party's operators are in a namespace of its name:
``opwright.ops.acme.swish``. Functions are made at first use, so that plugins show up by themselves.
"""

from __future__ import annotations

import sys

from opwright import _runtime
from opwright.ops.namespace import Finder

sys.modules[__name__].__class__ = _runtime.Namespace
Finder("", globals())
