"""The blocks of a network as nodes and edges, in the terms of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opwright import Variable
from opwright.vocabulary import GRAD_SUFFIX

if TYPE_CHECKING:
    from opwright import Block, Operator

FindVar = Callable[[str], "Variable | None"]


@dataclass(slots=True)
class Read:
    """One variable that an operator reads.

    Attributes
    ----------
    slot, name, type : str
        ``type`` is dtype and shape; empty if nothing is known.
    source : int
        The node that wrote it, or that represents it; -1 for a variable of the scope.
    kind : str
        ``"parameter"``, ``"state"`` (any other persistable) or ``"value"``.
    """

    slot: str
    name: str
    type: str
    source: int
    kind: str


@dataclass(slots=True)
class Node:
    """An operator, or an input or output variable of its block.

    Attributes
    ----------
    kind : str
        ``"op"``, ``"given"`` or ``"fetch"``.
    name : str
        Operator type, or variable.
    index : int
        Index of the operator in its block; -1 for other nodes.
    reads : list of Read
    writes : list of (str, str, str)
        Slot, name and type of each output.
    op : Operator or None
    """

    kind: str
    name: str
    index: int = -1
    reads: list[Read] = field(default_factory=list)
    writes: list[tuple[str, str, str]] = field(default_factory=list)
    op: Operator | None = None

    def role(self) -> str:
        """Return the role of the operator, derived from its variables."""
        if self.op is None:
            return self.kind
        if self.op.block_attrs():
            return "control"
        written = {name for _, name, _ in self.writes}
        if written and written <= {read.name for read in self.reads if read.kind != "value"}:
            return "update"
        if self.op.type.endswith(GRAD_SUFFIX) or any(GRAD_SUFFIX in name for name in written):
            return "gradient"
        return "forward"


@dataclass(slots=True)
class BlockGraph:
    """One block: its nodes in topological order.

    ``edges`` are (source node, target node); ``owner`` identifies the operator that has the block
    as its body: (block, operator, attribute).
    """

    idx: int
    nodes: list[Node]
    edges: list[tuple[int, int]]
    owner: tuple[int, int, str] | None = None

    def op_nodes(self) -> list[Node]:
        """Return only the operators."""
        return [node for node in self.nodes if node.kind == "op"]


def build_graphs(
    ops: Sequence[Operator], block: Block | None, fetches: Iterable[str] = ()
) -> list[BlockGraph]:
    """Return the graphs of a network and of all blocks that its operators run, by index.

    Parameters
    ----------
    ops : sequence of Operator
    block : Block or None
        Their block; None for loose operators, whose shapes are unknown.
    fetches : iterable of str
        Variables whose final values are requested.
    """
    first = _build(ops, block, 0 if block is None else block.idx, tuple(fetches))
    graphs = {first.idx: first}
    open_graphs = [first]
    while open_graphs and block is not None:
        graph = open_graphs.pop()
        for node in graph.op_nodes():
            for attr, idx in node.op.block_attrs().items() if node.op else ():
                if idx in graphs:
                    continue
                body = block.program.blocks[idx]
                graphs[idx] = _build(body.ops, body, idx, ())
                graphs[idx].owner = (graph.idx, node.index, attr)
                open_graphs.append(graphs[idx])
    return [graphs[idx] for idx in sorted(graphs)]


def _build(
    ops: Sequence[Operator], block: Block | None, idx: int, fetches: tuple[str, ...]
) -> BlockGraph:
    find_var: FindVar = (lambda name: None) if block is None else block.find_var
    graph = BlockGraph(idx, [], [])
    written: dict[str, int] = {}
    for index, op in enumerate(ops):
        reads = []
        for slot, names in op.inputs.items():
            for name in names:
                reads.append(_read(graph, slot, name, find_var(name), written))
        node = Node("op", op.type, index, reads, op=op)
        number = _append(graph, node)
        for slot, names in op.outputs.items():
            for name in names:
                node.writes.append((slot, name, _type(find_var(name))))
                written[name] = number
    for name in fetches:
        read = _read(graph, "", name, find_var(name), written)
        _append(graph, Node("fetch", name, reads=[read]))
    return graph


def _append(graph: BlockGraph, node: Node) -> int:
    graph.nodes.append(node)
    number = len(graph.nodes) - 1
    graph.edges += [(read.source, number) for read in node.reads if read.source >= 0]
    return number


def _read(
    graph: BlockGraph, slot: str, name: str, variable: Variable | None, written: dict[str, int]
) -> Read:
    kind = "value"
    if variable is not None and variable.persistable:
        kind = "parameter" if variable.is_parameter else "state"
    if name not in written and kind == "value":
        given = Node("given", name, writes=[("", name, _type(variable))])
        written[name] = _append(graph, given)
    return Read(slot, name, _type(variable), written.get(name, -1), kind)


def _type(variable: Variable | None) -> str:
    return "" if variable is None else variable.type_text
