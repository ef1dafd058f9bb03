"""For authors of kernels: the context of ``prepare``, refusals, why a kernel was chosen."""

from opwright.lowering.prepare_one import PreparedKernel, prepare_one
from opwright.plugins.explanation import Candidate, Explanation, explain
from opwright.plugins.threads import MAX_THREADS
from opwright.registry import ANY, KernelEntry, KernelKey
from opwright.registry.prepare_context import (
    DeviceCall,
    PrepareContext,
    Refuse,
    Unsupported,
)
from opwright.registry.python_layout import PythonLayout, check_signature

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
