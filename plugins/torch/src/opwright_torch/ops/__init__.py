"""Every discovered operator as a function of PyTorch tensors, like `opwright.ops` for arrays.

``opwright_torch.ops.softmax(x, axis=-1)`` has the arguments, dtype rules and errors of
``opwright.ops.softmax``, and the third-party operator ``acme.swish`` is
``opwright_torch.ops.acme.swish``. Arguments and results are tensors on the CPU or, for operators
with CUDA kernels, on the current CUDA stream.

- **autograd**: gradients, including second derivatives, follow opwright's rules. An operator
  without a rule, or with a rule that can be differentiated only once, raises GradientError in the
  backward pass. Integers and returned state, such as the running statistics of `batch_norm`, have
  no gradient.
- **random operators** draw their ``step`` from PyTorch's generator, so ``torch.manual_seed`` makes
  them reproducible. An explicit step takes precedence.
- **autocast**: products run in the dtype of the region. Losses, norms, and functions that lose
  precision or range in 16 bits run in float32. All other operators promote inputs that must have
  equal dtypes to the widest of these dtypes.
- **torch.compile, torch.export, torch.func** trace calls as ``torch.ops.opwright.softmax`` and
  ``torch.ops.opwright_acme.swish``. `torch.func.vmap` calls element-wise opwright-std operators
  once, and other operators for each example. Forward-mode derivatives are computed by two
  vector-Jacobian products.

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
        """Return any operator; for type checkers."""


for _name in [name for name in globals() if f"{__name__}.{name}" in sys.modules]:
    del globals()[_name]  # submodules of this package are not operators
define_own()
sys.modules[__name__].__class__ = Namespace
Finder("", globals(), make_torch_function)
