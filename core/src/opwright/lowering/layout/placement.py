"""What a plan runs on which device: the result of ``network.placement()``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from opwright.registry import HOST_DEVICE


@dataclass(slots=True)
class Placement:
    """Counts of one plan, with the bodies of its control flow."""

    device: str  # type, and number where that is not 0
    operators: int = 0  # that run, after passes
    python_steps: int = 0  # operators with a Python kernel
    kernels: Counter[str] = field(default_factory=Counter)  # operators by ``device/library``
    types: Counter[str] = field(default_factory=Counter)  # operators by type, after fusion
    refusals: dict[str, str] = field(default_factory=dict)  # better kernels, with one reason each
    copies: int = 0  # between buffers or devices
    bytes_moved: int = 0  # by these copies in one run
    n_threads: int = 1  # of the plan itself; a body of control flow has its own number
    prepare_s: float = 0.0  # spent in the ``prepare`` of kernels
    # Why the device launches the operators one by one. Empty if it replays them as one graph, which
    # it records in the second run.
    graph_refusal: str = ""

    def add_child(self, child: Placement) -> None:
        """Add the counts of the body of a control-flow operator."""
        self.operators += child.operators
        self.python_steps += child.python_steps
        self.kernels.update(child.kernels)
        self.types.update(child.types)
        self.refusals = {**child.refusals, **self.refusals}
        self.copies += child.copies
        self.bytes_moved += child.bytes_moved

    def __str__(self) -> str:
        lines = [
            f"device        {self.device}",
            f"operators     {self.operators}",
            f"python steps  {self.python_steps}",
        ]
        for name, count in sorted(self.kernels.items()):
            lines.append(f"  {name:<11} {count}")
        for who, reason in sorted(self.refusals.items()):
            lines.append(f"  {who}: {reason}")
        lines.append(f"threads       {self.n_threads}")
        lines.append(f"copies        {self.copies} ({self.bytes_moved} bytes a run)")
        lines.append(f"prepare       {self.prepare_s * 1e3:.2f} ms")
        if self.device != HOST_DEVICE:
            lines.append(f"graph         {self.graph_refusal or 'one, recorded and replayed'}")
        return "\n".join(lines)
