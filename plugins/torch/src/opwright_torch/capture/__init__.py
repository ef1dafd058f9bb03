"""From the graph that Dynamo hands a backend to a functional graph of ATen operators.

It is captured before autograd: operators such as ``linear``, ``layer_norm`` and
``scaled_dot_product_attention`` stay whole, and nothing of a backward is in it. What a
`GraphModule` cannot say, which inputs change and what the caller gets, is beside it.
"""

from opwright_torch.capture.capturing import Captured, capture
from opwright_torch.capture.inputs import is_kept, size_values
from opwright_torch.capture.results import Mutation, Output, View, evaluate
from opwright_torch.capture.running import CaptureError

__all__ = [
    "CaptureError",
    "Captured",
    "Mutation",
    "Output",
    "View",
    "capture",
    "evaluate",
    "is_kept",
    "size_values",
]
