"""What a plan runs on which device: the result of ``network.placement()``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from opwright.registry import HOST_DEVICE


@dataclass(slots=True)
class Placement:
    """Counts of one plan, with the bodies of its control flow.

    Attributes
    ----------
    device : str
        Device of the plan: its type, and its number where that is not 0.
    operators : int
        Operators that run, after passes.
    python_steps : int
        Operators with a Python kernel.
    kernels : Counter
        Operators by ``device/library``.
    types : Counter
        Operators by type, after fusion.
    refusals : dict of str to str
        Better kernels that cannot be used, and why, with one reason each.
    copies : int
        Copies between buffers or devices.
    bytes_moved : int
        Bytes that these copies move in one run.
    n_threads : int
        Threads that the kernels of the plan itself use; a body of control flow has its own number.
    prepare_s : float
        Seconds spent in the ``prepare`` of kernels.
    graph_refusal : str
        Why the device launches the operators one by one. Empty if it replays them as one graph,
        which it records in the second run.
    """

    device: str
    operators: int = 0
    python_steps: int = 0
    kernels: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    refusals: dict[str, str] = field(default_factory=dict)
    copies: int = 0
    bytes_moved: int = 0
    n_threads: int = 1
    prepare_s: float = 0.0
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
