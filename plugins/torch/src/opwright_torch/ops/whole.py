"""Two operators with a string attribute: one runs programs, the other all gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.library import Library

import opwright as ow
from opwright.op import Meta
from opwright_torch.dtypes import dtype_name
from opwright_torch.ops.calls import Whole, read, with_sizes
from opwright_torch.ops.gradients import make_piece, read_program, run, separate
from opwright_torch.ops.library import (
    VJP,
    WHOLE,
    empty_like,
    execute,
    implement,
    infer,
    libraries,
)
from opwright_torch.ops.transforms import Traced, is_followed, record_traced, run_batch

is_transforming: Final = torch._C._are_functorch_transforms_active


def run_program(values: list[torch.Tensor], program: str) -> Sequence[torch.Tensor]:
    """Run a Program, serialized as a `Whole`, as a functional PyTorch operator."""
    if not torch.compiler.is_compiling() and is_transforming():
        found: Sequence[torch.Tensor] = Traced.apply(execute, read(program), (), *values)
        return found
    results: list[torch.Tensor] = torch.ops.opwright._program(values, program)
    return results


class _WholeKernels:
    """The implementations of the operator that runs a Program."""

    @staticmethod
    def compute(values: list[torch.Tensor], program: str) -> list[torch.Tensor]:
        """Run the program directly."""
        return separate(run(ow.current_context(), read(program), values), values)

    @staticmethod
    def fake(values: list[torch.Tensor], program: str) -> list[torch.Tensor]:
        """Return empty tensors with the shapes that the shape rules infer; they can be symbolic."""
        whole: Any = read(program)
        known = dict(zip(whole.arguments, values, strict=True))
        described = read_program(whole)
        if len(described.blocks) > 1:
            return _fake_by_numbers(whole, values)
        for op in described.global_block().ops:
            proto = op.definition.proto
            inputs = [
                [known[name] for name in op.inputs[slot.name]] if slot.name in op.inputs else None
                for slot in proto.inputs
            ]
            slots = [slot.name for slot in proto.outputs if slot.name in op.outputs]
            attrs = [op.attrs.get(attr.name) for attr in proto.attrs]
            names = [name for slot in slots for name in op.outputs[slot]]
            known.update(zip(names, infer(op.definition, inputs, attrs, slots), strict=True))
        return [known[name] for name in whole.results]

    @staticmethod
    def record(values: list[torch.Tensor], program: str) -> list[torch.Tensor]:
        """Run the program with autograd."""
        if is_followed(values):
            return list(record_traced(execute, read(program), (), *values))
        with torch._C._AutoDispatchBelowAutograd():
            results: list[torch.Tensor] = torch.ops.opwright._program(values, program)
        return results

    @staticmethod
    def batch(info: Any, in_dims: Any, values: list[torch.Tensor], program: str) -> Any:
        """Run the program on each example of a batch of `torch.func.vmap`."""
        what = read(program)
        results, out_dims = run_batch(
            lambda *given: execute(what, (), given), what, values, in_dims[0], info.batch_size
        )
        return list(results), list(out_dims)


def _fake_by_numbers(whole: Whole, values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return empty tensors for a program with control flow; sizes become guarded integers."""
    metas = tuple(Meta(tuple(map(int, v.shape)), dtype_name(v.dtype)) for v in values)
    block = make_piece(whole, metas).block
    return [empty_like(block.var(name), torch.device("cpu")) for name in whole.results]


class _VjpKernels:
    """The implementations of the operator that computes all gradients."""

    @staticmethod
    def compute(values: list[torch.Tensor], sizes: list[int], call: str) -> list[torch.Tensor]:
        """Run the gradients directly; a gradient is zero if no result depends on the input."""
        what = with_sizes(read(call), sizes)
        results = run(ow.current_context(), what, values)
        pairs = zip(results, what.wanted, strict=True)
        filled = [torch.zeros_like(values[i]) if r is None else r for r, i in pairs]
        return separate(filled, values)

    @staticmethod
    def fake(values: list[torch.Tensor], sizes: list[Any], call: str) -> list[torch.Tensor]:
        """Return empty tensors like the arguments."""
        what: Any = read(call)
        wanted = [values[i] for i in what.wanted]
        return [torch.empty(v.shape, dtype=v.dtype, device=v.device) for v in wanted]

    @staticmethod
    def record(values: list[torch.Tensor], sizes: list[Any], call: str) -> list[torch.Tensor]:
        """Run the gradients with autograd."""
        if is_followed(values):
            return list(record_traced(execute, read(call), tuple(sizes), *values))
        with torch._C._AutoDispatchBelowAutograd():
            results: list[torch.Tensor] = torch.ops.opwright._vjp(values, sizes, call)
        return results

    @staticmethod
    def batch(
        info: Any, in_dims: Any, values: list[torch.Tensor], sizes: list[Any], call: str
    ) -> Any:
        """Run the gradients on a batch of `torch.func.vmap`."""
        what = read(call)
        results, out_dims = run_batch(
            lambda *given: execute(what, sizes, given), what, values, in_dims[0], info.batch_size
        )
        return list(results), list(out_dims)


def define_own() -> None:
    """Define the operators for programs and for gradients, once per process."""
    library = libraries["opwright"] = Library("opwright", "FRAGMENT")
    library.define("_program(Tensor[] values, str program) -> Tensor[]")
    implement(library, WHOLE, _WholeKernels)
    library.define("_vjp(Tensor[] values, SymInt[] sizes, str call) -> Tensor[]")
    implement(library, VJP, _VjpKernels)
