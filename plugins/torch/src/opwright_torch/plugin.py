"""Registrations of opwright-torch."""

from __future__ import annotations

from opwright import plugin

SUBJECTS = (
    "activations",
    "comparisons",
    "complex_numbers",
    "convolutions",
    "creation",
    "functions",
    "indexing",
    "losses",
    "normalization",
    "own",
    "pointwise",
    "pooling",
    "products",
    "random",
    "recurrent",
    "reductions",
    "resizing",
    "sampling",
    "shapes",
    "slices",
)
CALLS = {"call": "CALL", "random_call": "RANDOM_CALL", "call_grad": "CALL_GRAD"}
"""The types of the ``torch.`` operators and the names of their definitions."""


@plugin.hookimpl
def opwright_annexes(registry: plugin.AnnexRegistrar) -> None:
    """Register the ATen translation tables and a rule of ``opwright check`` by name."""
    registry.add("rule", "torch", "opwright_torch.checking:check_operator")
    for subject in SUBJECTS:
        registry.add("torch", f"aten.{subject}", f"opwright_torch.aten.{subject}:ROWS")


@plugin.hookimpl
def opwright_ops(registry: plugin.OpRegistrar) -> None:
    """Register the operators that call PyTorch inside a plan."""
    for op_type, name in CALLS.items():
        registry.add(f"torch.{op_type}", f"opwright_torch.calls.operators:{name}")


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Register the kernel of these operators; it imports PyTorch when a plan is built."""
    kernel = "opwright_torch.calls.operators:CallKernel"
    for op_type in CALLS:
        registry.add(f"torch.{op_type}", device="cpu", dtypes=["*"], kernel=kernel, library="torch")
