"""The operator types that the core itself emits, and reserved names.

The core contains no operator. Gradients, copies, the step counter and shape operands need six
operators, which the core names by type; any plugin may provide them. The gradient of a loop is a
scan; its `opwright.op.Loop` names the slots. The slots of the other operators are fixed here:

==========  ==============  =======  ==========================================================
type        inputs          output   attributes
==========  ==============  =======  ==========================================================
fill_like   x (shape only)  out      value (float, default 0): out has the shape and dtype of x
add_n       x (duplicable)  out      none: out is the sum of all x, of one shape and dtype
assign      x               out      none: out is a copy of x
cast        x               out      dtype (a dtype attribute, required)
std.as_shape  x (duplicable)   out      none: the empty out has the numbers of x in its shape
==========  ==============  =======  ==========================================================
"""

from __future__ import annotations

from typing import Final

FILL_LIKE: Final = "fill_like"
ADD_N: Final = "add_n"
ASSIGN: Final = "assign"
CAST: Final = "cast"
SCAN: Final = "scan"
AS_SHAPE: Final = "std.as_shape"

EMITTED_TYPES: Final = (FILL_LIKE, ADD_N, ASSIGN, CAST, SCAN, AS_SHAPE)
"""The only operator types that the core emits."""

PROVIDER: Final = "opwright-std"
"""The distribution that provides these types; only its operator types are unprefixed."""

X: Final = "x"
"""The input slot of all these operators except a scan."""

OUT: Final = "out"
"""The output slot of all these operators except a scan."""

GRAD_SUFFIX: Final = "_grad"
"""The suffix of gradient operator types, of their gradient slots, and of gradient names."""

SEED_ATTR: Final = "seed"
STREAM_ATTR: Final = "stream"
STEP_SLOT: Final = "step"
"""The attributes and the input of an operator that draws random numbers, see `OpMaker.build`."""

STEP: Final = "@step"
"""The persistable int64 variable of shape [1] that counts the runs of a program."""
