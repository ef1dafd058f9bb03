"""The graph for passes, with queries for kernels and collected changes."""

from __future__ import annotations

from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.values import LoweredOp
from opwright.lowering.kernels.estimate import estimate_ns
from opwright.lowering.kernels.select import find_kernel, find_preferring_kernel
from opwright.lowering.rewriting.edit import Edit
from opwright.packages import ANY


class PassGraph(Graph):
    """A `Graph` that passes can also query for kernels."""

    def is_served(self, op_type: str) -> bool:
        """Whether the plan's device has kernels of an operator, for any dtype; a quick check."""
        kernels, lock = self.target.context.kernels, self.target.lock
        if lock is not None:  # packages installed later must not change the answer
            known = [entry for entry in kernels.entries(op_type) if lock.includes(entry.package)]
            return any(entry.device in {self.device, ANY} for entry in known)
        devices = kernels.devices_of(op_type)
        return self.device in devices or ANY in devices

    def has_kernel(self, op: LoweredOp) -> bool:
        """Choose a kernel of the plan's device for ``op``; return whether a kernel accepts it."""
        return find_kernel(op, self)

    def has_preferring_kernel(self, op: LoweredOp, attr: str) -> bool:
        """Choose the kernel of `has_kernel` if it prefers the value of `attr` in ``op``.

        Return whether a kernel was chosen; all its other preferences must also be met. Kernels
        that rank below every kernel with this preference (`opwright.kernel.KernelEntry.prefers`)
        are not prepared.
        """
        return find_preferring_kernel(op, attr, self)

    def estimate_ns(self, op: LoweredOp) -> int:
        """Return the estimated time of one run of an operator that has a kernel."""
        return estimate_ns(op, self.device)

    def edit(self) -> Edit:
        """Return an `Edit`, which collects changes and applies them together."""
        return Edit(self)
