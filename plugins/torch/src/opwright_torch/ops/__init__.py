"""Every discovered operator on PyTorch tensors, as in `opwright.ops` for arrays.

``opwright_torch.ops.softmax(x, axis=-1)`` has the arguments, dtype rules and errors of
``opwright.ops.softmax``, and a third party's ``acme.swish`` is ``opwright_torch.ops.acme.swish``.
Arguments and results are tensors, on the CPU or, for operators with kernels there, on CUDA's
current stream.

- **autograd**: gradients follow our rules, second ones too. An operator without a rule, or with a
  rule that can be differentiated once, raises GradientError in the backward pass. Integers and
  state, such as the running statistics of `batch_norm`, which are returned, have no gradient.
- **random operators** draw their ``step`` from PyTorch's generator, so ``torch.manual_seed``
  makes them reproducible; an explicit step takes precedence.
- **autocast**: products run in the dtype of the region; losses, norms, and functions that lose
  precision or range in 16 bits in float32; all others promote inputs of equal dtype to the widest.
- **torch.compile, torch.export, torch.func** see ``torch.ops.opwright.softmax``, and
  ``torch.ops.opwright_acme.swish``. `torch.func.vmap` calls element-wise operators of opwright-std
  once, and other operators for each example. Forward-mode derivatives are two vector-Jacobian
  products.

Operators with blocks (`cond`, `while_loop`, `scan`) are only available in programs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from opwright.runtime import Finder, Namespace
from opwright_torch.ops.functions import make_torch_function
from opwright_torch.ops.whole import define_own

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Any operator, for type checkers."""


for _name in [name for name in globals() if f"{__name__}.{name}" in sys.modules]:
    del globals()[_name]  # a module of this package is not an operator
define_own()
sys.modules[__name__].__class__ = Namespace
Finder("", globals(), make_torch_function)
