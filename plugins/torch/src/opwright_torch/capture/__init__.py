"""From Dynamo's graph to a functional graph of ATen operators.

It is captured before autograd: operators such as ``linear``, ``layer_norm`` and
``scaled_dot_product_attention`` stay whole, and the graph has no backward. Mutated inputs and the
caller's outputs, which a `GraphModule` cannot express, are recorded separately.
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
