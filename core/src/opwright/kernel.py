"""For kernel authors: the context of ``prepare``, refusals, and explanations of kernel choice."""

from opwright.context.explanation import Candidate, Explanation, explain
from opwright.context.threads import MAX_THREADS
from opwright.lowering.kernels.prepare_context import (
    DeviceCall,
    PrepareContext,
    Refuse,
    Unsupported,
)
from opwright.lowering.prepare_one import PreparedKernel, prepare_one
from opwright.packages import ANY, KernelKey
from opwright.registry import KernelEntry
from opwright.targets.python_layout import PythonLayout, check_signature

__all__ = [
    "ANY",
    "MAX_THREADS",
    "KernelKey",
    "KernelEntry",
    "PrepareContext",
    "PreparedKernel",
    "prepare_one",
    "DeviceCall",
    "Refuse",
    "Unsupported",
    "explain",
    "Explanation",
    "Candidate",
    "PythonLayout",
    "check_signature",
]
