"""Builds the Program of a plan from a captured graph, with its feeds, fetches and state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import Node
from torch.utils._pytree import tree_leaves

import opwright as ow
from opwright import vocabulary
from opwright_torch.capture import Captured, CaptureError, evaluate, is_kept
from opwright_torch.dtypes import NAMES
from opwright_torch.translate import Translated, translate


class Job(NamedTuple):
    """Size-independent properties of a graph or Program."""

    draft: Callable[[Job, Mapping[Any, int]], Draft]  # writes the forward pass for given sizes
    kept: tuple[int, ...]  # inputs stored in the scope
    written: tuple[int, ...]  # kept inputs that the graph mutates
    fed: tuple[int, ...]  # other tensors
    trained: tuple[int, ...]  # inputs with requested gradients
    returned: tuple[int, ...]  # positions of the results in the flat list of the graph
    differentiable: tuple[int, ...]  # differentiable results
    loss: int  # the result whose gradients are computed in the same plan, or -1
    symbols: tuple[tuple[int, Any], ...] = ()  # indices of inputs that are sizes, and their symbols
    captured: Captured | None = None
    inputs: Sequence[Node] = ()


def make_job(captured: Captured, given: Sequence[Any]) -> Job:
    """Return the roles of the inputs and results of a graph.

    A graph with one differentiable scalar result computes its gradients in the same plan, even if
    it has other results that are rarely differentiated, such as the scores of a loss.

    Raises
    ------
    CaptureError
        If a size depends on the values of tensors, or if opwright does not have the dtype of an
        input or a result, such as complex numbers.
    """
    _check_sizes(captured)
    inputs = [node for node in captured.module.graph.nodes if node.op == "placeholder"]
    metas = [node.meta["val"] for node in inputs]
    tensors = [i for i, meta in enumerate(metas) if isinstance(meta, torch.Tensor)]
    on_host = all(metas[i].device.type == "cpu" for i in tensors)
    mutated = {mutation.input for mutation in captured.mutations}
    kept = [
        i
        for i in tensors
        if on_host and is_kept(given[i]) and (i not in mutated or given[i].is_contiguous())
    ]
    fed = [i for i in tensors if i not in kept]
    trained = [i for i in tensors if inputs[i].meta["requires_grad"] and torch.is_grad_enabled()]
    returned = sorted(
        {output.position for output in captured.outputs if output.source == "computed"}
        | {mutation.position for mutation in captured.mutations if mutation.input not in kept}
    )
    results = results_of(captured, returned)
    _check_dtypes([*inputs, *results])
    flows = [i for i, node in enumerate(results) if trained and node.meta["requires_grad"]]
    scalars = [i for i in flows if results[i].meta["val"].numel() == 1]
    loss = scalars[0] if len(scalars) == 1 else -1
    symbols = [(i, m.node.expr) for i, m in enumerate(metas) if isinstance(m, torch.SymInt)]
    return Job(
        draft,
        tuple(kept),
        tuple(i for i in kept if i in mutated),
        tuple(fed),
        tuple(trained),
        tuple(returned),
        tuple(flows),
        loss,
        tuple(symbols),
        captured,
        inputs,
    )


def _check_sizes(captured: Captured) -> None:
    """Raise CaptureError for a size that does not follow from the inputs' sizes."""
    known: set[Any] = set()
    for node in captured.module.graph.nodes:
        value = node.meta.get("val")
        shapes = [leaf.shape for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        sizes = [size for shape in shapes for size in shape if isinstance(size, torch.SymInt)]
        if node.op == "placeholder":
            sizes += [value] if isinstance(value, torch.SymInt) else []
            known.update(*(size.node.expr.free_symbols for size in sizes))
        for size in sizes:
            if not known.issuperset(size.node.expr.free_symbols):
                raise CaptureError(
                    f"capture: sizes must follow from the sizes of inputs, got {size} of "
                    f"{node.target}, which depends on values"
                )


def _check_dtypes(nodes: Sequence[Node]) -> None:
    """Raise CaptureError for an input or a result of a dtype that opwright does not support."""
    for node in nodes:
        value = node.meta["val"]
        if isinstance(value, torch.Tensor) and value.dtype not in NAMES:
            raise CaptureError(
                "capture: inputs and results must have a dtype that opwright supports, got "
                f"{value.dtype} of {node.target}; pass real numbers, such as torch.view_as_real(x)"
            )


def results_of(captured: Captured, returned: Sequence[int]) -> list[Any]:
    """Return the nodes at these positions in the flat list of the graph's outputs."""
    (output,) = (node for node in captured.module.graph.nodes if node.op == "output")
    return [output.args[0][position] for position in returned]


class Draft(NamedTuple):
    """A Program with the feeds and results of its plan."""

    translated: Translated
    feeds: list[str]  # of the fed inputs in order, then the step if the program reads it
    results: list[str]
    state: list[tuple[str, str]]  # variables that are written, with the names of their new values
    is_random: bool
    strides: list[tuple[int, tuple[int, ...], tuple[int, ...]]]  # see `strides_of`

    @property
    def program(self) -> ow.Program:
        """The Program."""
        return self.translated.program

    def name(self, index: int) -> str:
        """Return the variable of an input."""
        found = self.translated.inputs[index]
        return str(found)


def draft(job: Job, sizes: Mapping[Any, int]) -> Draft:
    """Return the forward Program of a captured graph for given sizes."""
    captured: Any = job.captured
    module = captured.module
    translated = translate(module.graph, module, sizes, job.kept, job.trained)
    block = translated.program.global_block()
    is_random = block.find_var(vocabulary.STEP) is not None
    feeds = [str(translated.inputs[i]) for i in job.fed]
    if is_random:
        feeds.append(vocabulary.STEP)
    results, trained = [], set(translated.trained)
    originals = {translated.inputs[i] for i in job.kept}
    for position in job.returned:
        value = translated.outputs[position]
        name = value.name
        if name in originals:  # each copy has its own gradient, and none is in the scope
            name = copy_value(block, value)
            trained.update([name] if value.name in trained else [])
        originals.add(name)
        results.append(name)
    translated = translated._replace(trained=frozenset(trained))
    state = [
        (str(translated.inputs[m.input]), translated.outputs[m.position].name)
        for m in captured.mutations
        if m.input in job.written
    ]
    strides = strides_of(results_of(captured, job.returned), sizes)
    return Draft(translated, feeds, results, state, is_random, strides)


def copy_value(block: ow.Block, value: ow.Variable) -> str:
    """Append a copy of a value and return its name."""
    (name,) = block.append_op(vocabulary.ASSIGN, {"x": value}, {}).output_names()
    return str(name)


def write_state(block: ow.Block, state: Iterable[tuple[str, str]]) -> None:
    """Append the assignments of new values to variables of the scope."""
    for variable, value in state:
        block.append_op(vocabulary.ASSIGN, {"x": value}, {"out": variable})


def strides_of(
    results: Sequence[Node], sizes: Mapping[Any, int]
) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """Return the index, shape and strides of results that are not contiguous in PyTorch.

    An example is a transposed result. Results of ``expand`` become contiguous, since their elements
    overlap in memory.
    """
    found = []
    for i, node in enumerate(results):
        value = node.meta["val"]
        shape = tuple(evaluate(size, sizes) for size in value.shape)
        stride = tuple(evaluate(step, sizes) for step in value.stride())
        overlaps = any(step == 0 and size > 1 for step, size in zip(stride, shape))
        is_dense = torch.empty_strided(shape, stride, device="meta").is_contiguous()
        if not (overlaps or is_dense):
            found.append((i, shape, stride))
    return found
