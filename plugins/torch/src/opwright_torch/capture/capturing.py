"""Captures a Dynamo graph as a functional graph of ATen operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch._guards import tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx import GraphModule, Node
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx

from opwright_torch.capture.cleaning import clean
from opwright_torch.capture.results import Mutation, Output, View
from opwright_torch.capture.running import CaptureError, FunctionalRun, functional_mode

Storage = int | None
"""The identity of a tensor's storage; None for a tensor without storage."""


class Captured(NamedTuple):
    """A functional graph, and its mapping to the inputs and outputs of the Dynamo graph.

    Attributes
    ----------
    module : GraphModule
        Its placeholders are the inputs of the Dynamo graph, with the same order and names. Each
        node has a ``meta["val"]``: FakeTensors, SymInts or tuples of them. It also has a
        ``meta["requires_grad"]``, which is False where gradients stop, and a
        ``meta["stack_trace"]`` if Dynamo knows the source line. The output node has one flat list.
    mutations : tuple of Mutation
        Writes to inputs that are applied before outputs are created.
    outputs : tuple of Output
        One for each output of the Dynamo graph.
    """

    module: GraphModule
    mutations: tuple[Mutation, ...]
    outputs: tuple[Output, ...]


def capture(module: GraphModule, example_inputs: Sequence[Any]) -> Captured:
    """Capture a Dynamo graph.

    Parameters
    ----------
    module : GraphModule
        The module that ``torch.compile(backend=...)`` passes to the backend.
    example_inputs : sequence
        Tensors, SymInts and numbers. Only their ``requires_grad`` is read.

    Raises
    ------
    CaptureError
        If the graph replaces the storage of an input, modifies an input that shares memory with
        another input, or modifies a view of a tensor that requires gradients under ``no_grad``.
    """
    placeholders = _placeholders(module)
    pairs = zip(placeholders, example_inputs, strict=True)
    fakes = [node.meta.get("example_value", given) for node, given in pairs]
    plan = _Results(module, fakes, example_inputs)
    traced = _trace(module, fakes, plan)
    for node, source, given in zip(_placeholders(traced), placeholders, example_inputs):
        node.meta["requires_grad"] = _requires_grad(given)
        node._rename(source.name)
    clean(traced)
    return Captured(traced, tuple(plan.mutations), tuple(plan.outputs))


def _placeholders(module: GraphModule) -> list[Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


class _Results:
    """Determines the values that a captured graph must return."""

    def __init__(self, module: GraphModule, fakes: list[Any], given: Sequence[Any]) -> None:
        self.mutations: list[Mutation] = []
        self.outputs: list[Output] = []
        self._nodes: list[Node] = []
        self._placeholders, self._fakes = _placeholders(module), fakes
        self._leaves = [_requires_grad(value) and value.is_leaf for value in given]
        (finals,) = (node.args[0] for node in module.graph.nodes if node.op == "output")
        owners: dict[Storage, int] = {}
        for i, fake in enumerate(fakes):
            if isinstance(fake, torch.Tensor):
                owners.setdefault(_storage(fake), i)
        bases = self._shared_bases(finals, owners, module)
        for final in finals:
            self.outputs.append(self._output(final, owners, bases))

    def finish(self, run: FunctionalRun, arguments: Sequence[Any]) -> list[Any]:
        """Return the flat list after a run, and record the mutated inputs."""
        flat = [run.env[node] for node in self._nodes]
        for i, argument in enumerate(arguments):
            if not isinstance(argument, FunctionalTensor):
                continue
            if torch._functionalize_was_storage_changed(argument.elem):
                raise CaptureError(
                    f"capture: the graph replaces the storage of its input "
                    f"{self._placeholders[i].target}"
                )
            if torch._functionalize_has_data_mutation(argument.elem):
                self._check_sole(i)
                records = self._fakes[i].requires_grad and not self._leaves[i]
                self.mutations.append(Mutation(i, len(flat), records))
                flat.append(argument)
        return flat

    def _check_sole(self, index: int) -> None:
        storage = _storage(self._fakes[index])
        sharing = [i for i, fake in enumerate(self._fakes) if _storage(fake) == storage]
        if len(sharing) > 1:
            names = ", ".join(str(self._placeholders[i].target) for i in sharing)
            raise CaptureError(
                "capture: the graph modifies an input that shares memory with another "
                f"input: {names}"
            )

    def _output(self, final: Any, owners: dict[Storage, int], bases: dict[Storage, Node]) -> Output:
        if not isinstance(final, Node):
            return Output("constant", value=final)
        value = final.meta.get("example_value")
        if not isinstance(value, torch.Tensor):
            return Output("constant", value=value)
        storage, grad = _storage(value), value.requires_grad
        if storage in owners:
            for i, fake in enumerate(self._fakes):
                if value is fake:
                    return Output("input", i, requires_grad=grad)
            return Output("input", owners[storage], View.of(value), grad)
        base = bases.get(storage, final)
        view = None if base is final else View.of(value)
        return Output("computed", self._position(base), view, grad)

    def _position(self, node: Node) -> int:
        if node not in self._nodes:
            self._nodes.append(node)
        return self._nodes.index(node)

    def _shared_bases(
        self, finals: list[Any], owners: dict[Storage, int], module: GraphModule
    ) -> dict[Storage, Node]:
        """Return, for each storage that several outputs share, the node that creates it."""
        counts: dict[Storage, set[Node]] = {}
        for final in finals:
            storage = _storage(_value(final))
            if storage and storage not in owners:
                counts.setdefault(storage, set()).add(final)
        shared = {storage for storage, nodes in counts.items() if len(nodes) > 1}
        bases: dict[Storage, Node] = {}
        for node in module.graph.nodes if shared else ():
            value = _value(node)
            storage = _storage(value)
            if storage in shared and storage not in bases and value._base is None:
                bases[storage] = node
        return bases


def _value(node: Any) -> Any:
    return node.meta.get("example_value") if isinstance(node, Node) else None


def _requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _storage(value: Any) -> Storage:
    if not isinstance(value, torch.Tensor):
        return None
    return int(value.untyped_storage()._cdata)


def _trace(module: GraphModule, fakes: list[Any], plan: _Results) -> GraphModule:
    mode = _fake_mode(fakes)
    functional = functional_mode()

    def run(*arguments: Any) -> list[Any]:
        with functional():
            wrapped = [
                FunctionalTensor.to_functional(value) if isinstance(value, torch.Tensor) else value
                for value in arguments
            ]
            running = FunctionalRun(module)
            running.run(*wrapped)
            flat = plan.finish(running, wrapped)
            return [_unwrap(value) for value in flat]

    # Dynamo's tracing context has a second fake mode for AOTAutograd; Dynamo's FakeTensors belong
    # to the first mode.
    grad = torch.set_grad_enabled(torch.is_grad_enabled())  # restored even if the graph fails
    with tracing(None), mode, grad, fx_traceback.preserve_node_meta():
        inputs = [fake.detach() if _requires_grad(fake) else fake for fake in fakes]
        return make_fx(run, pre_dispatch=True)(*inputs)


def _unwrap(value: Any) -> Any:
    if not isinstance(value, FunctionalTensor):
        return value
    torch._sync(value)
    return torch._from_functional_tensor(value.elem)


def _fake_mode(fakes: Iterable[Any]) -> FakeTensorMode:
    for fake in fakes:
        if isinstance(fake, FakeTensor):
            return fake.fake_mode
    return FakeTensorMode()
