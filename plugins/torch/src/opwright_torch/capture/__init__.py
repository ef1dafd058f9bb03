"""Converts a Dynamo graph to a functional graph of ATen operators.

The graph is captured before autograd, so operators such as ``linear``, ``layer_norm`` and
``scaled_dot_product_attention`` are not decomposed, and there is no backward graph. Mutated inputs
and the caller's outputs, which a `GraphModule` cannot express, are recorded separately.
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
