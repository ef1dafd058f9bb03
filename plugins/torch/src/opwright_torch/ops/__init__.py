"""Every discovered operator on tensors of PyTorch, with the names and arguments of `opwright.ops`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from opwright.runtime import Finder, Namespace
from opwright_torch.ops.functions import make_torch_function
from opwright_torch.ops.library import define_vjp

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Any operator, as far as a type checker knows."""


define_vjp()
sys.modules[__name__].__class__ = Namespace
Finder("", globals(), make_torch_function)
