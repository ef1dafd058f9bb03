"""For authors of kernels: what ``prepare`` is given, how to refuse, why a kernel was chosen."""

from opwright.kernel.explanation import Candidate, Explanation, explain
from opwright.kernel.prepare import DeviceCall, PrepareContext, Refuse, Unsupported
from opwright.registry import KernelEntry, KernelKey
from opwright.registry.signature import PythonLayout, check_signature

__all__ = [
    "KernelKey",
    "KernelEntry",
    "PrepareContext",
    "DeviceCall",
    "Refuse",
    "Unsupported",
    "explain",
    "Explanation",
    "Candidate",
    "PythonLayout",
    "check_signature",
]
