"""Types and functions of the C++ runtime for tools, for example for building plans.

`EagerSource`, `Finder` and `make_function` create the functions of ``opwright.ops``, and functions
with the same names and arguments for other libraries.
"""

from __future__ import annotations

from opwright._runtime import (
    ARENA,
    CAPTURED,
    CHECK_TENSORS,
    DYNAMIC,
    EXTERNAL,
    FEED,
    FETCH,
    ITEM_ALIGNED,
    NONE,
    PERSISTABLE,
    CompiledNetwork,
    Device,
    Namespace,
    Plan,
    PlanBuilder,
    Prepared,
    Scope,
    Tensor,
    Watch,
    free_retired,
    host_device,
    prepare_python,
    use_openmp,
)
from opwright.device.intake import hold
from opwright.program.calls import expected_dtype
from opwright.run.eager import EagerSource, Missing
from opwright.run.ops.function import make_function
from opwright.run.ops.namespace import Finder, MissingOperatorError

__all__ = [
    "ARENA",
    "CAPTURED",
    "CHECK_TENSORS",
    "ITEM_ALIGNED",
    "DYNAMIC",
    "EXTERNAL",
    "FEED",
    "FETCH",
    "Finder",
    "Missing",
    "MissingOperatorError",
    "NONE",
    "Namespace",
    "PERSISTABLE",
    "CompiledNetwork",
    "Device",
    "EagerSource",
    "Plan",
    "PlanBuilder",
    "Prepared",
    "Scope",
    "Tensor",
    "Watch",
    "expected_dtype",
    "free_retired",
    "hold",
    "host_device",
    "make_function",
    "prepare_python",
    "use_openmp",
]
