"""Every discovered operator as a function of JAX arrays, like `opwright.ops` for NumPy.

``opwright_jax.ops.softmax(x, axis=-1)`` has the arguments, dtype rules and errors of
``opwright.ops.softmax``, and the third-party operator ``acme.swish`` is
``opwright_jax.ops.acme.swish``. Operators can be called directly, or inside `jax.jit`,
`jax.grad`, `jax.vmap`, `jax.lax.scan` and `jax.shard_map`.

- **gradients**, including second gradients, follow opwright's rules; an operator without a rule
  raises GradientError if its gradient is requested. Forward mode (`jax.jvp`) requires a second
  gradient.
- **vmap** computes the whole batch at once for operators known to work on each example separately,
  and one example after the other for all other operators.
- **dtypes** are JAX dtypes: without ``jax_enable_x64``, 64-bit results are returned in 32 bits,
  and arguments may have 32 bits where an operator accepts only 64. Numbers and weakly typed arrays
  get the dtype of the arrays in the call.
- **random operators** take their ``step``; equal steps draw equal numbers.
- attributes are Python values, which `jax.jit` must not trace.

Operators with blocks (`cond`, `while_loop`, `scan`) are only for programs and are not available
here.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from opwright.runtime import Finder, Namespace
from opwright_jax.functions import make_jax_function

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Any operator, for type checkers."""


sys.modules[__name__].__class__ = Namespace
Finder("", globals(), make_jax_function)
