"""A network as one self-contained HTML file, which loads nothing from a network or other files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opwright import Context, current_context
from opwright.device import HOST_DEVICE, DeviceName
from opwright.errors import ProgramError
from opwright.plugin import path_of, suggest_arguments
from opwright_kit.drawing.details import collect_details
from opwright_kit.drawing.graph import BlockGraph, Node, build_graphs
from opwright_kit.drawing.grouping import Layer, find_layers
from opwright_kit.drawing.kernels import KernelChoices
from opwright_kit.drawing.svg import NodeText, draw_block
from opwright_kit.drawing.times import StepTimes
from opwright_kit.drawing.writing import check_target, write_whole

if TYPE_CHECKING:
    from opwright import Network
    from opwright_kit.profiling import Profile

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""The page does not let the browser load anything."""

_LEGEND: Final = ("forward", "gradient", "update", "control")


class Drawn(NamedTuple):
    """The written page: its file, its size, and the numbers of operators, blocks and edges."""

    path: Path
    operators: int
    blocks: int
    edges: int
    size_bytes: int


@suggest_arguments
def write_page(
    network: Network,
    path: str | os.PathLike[str],
    *,
    title: str = "network",
    fetches: Iterable[str] = (),
    profile: Profile | None = None,
    device: str = "cpu",
    force: bool = False,
) -> Drawn:
    """Write a network as a self-contained HTML page for a browser.

    Operators are drawn in rows, with shapes and dtypes on the edges between them. The operators of
    each layer form a group, and the blocks of control flow are below; both can be closed and
    opened. A click on an operator shows its attributes, its documentation, and which
    kernel is chosen on each device and why.

    Parameters
    ----------
    network : Network
    path : str or PathLike
        The file, which is written completely or not at all.
    title : str
        The title at the top.
    fetches : iterable of str
        Variables that are drawn as results.
    profile : Profile, optional
        The result of `opwright_kit.profile` for this network: operators show their time and a color
        for it.
    device : str
        The device whose kernels are named on the operators; with a profile, the kernels that ran.
    force : bool
        Whether to replace an existing file.

    Returns
    -------
    Drawn
        The path, and the numbers of drawn parts.

    Raises
    ------
    FileTakenError
        If the file exists and `force` is not given.
    ProgramError
        If there is nothing to draw.
    DeviceNotFoundError
        If no plugin provides the device.
    OSError
        If the file cannot be written; an existing file is unchanged.
    """
    target = Path(path_of("Network.graph_html", path, "file"))
    check_target(target, force=force)
    graphs = build_graphs(network.ops, network.block, fetches)
    n_ops = count_operators(graphs)
    if n_ops == 0:
        raise ProgramError("graph: there must be an operator to draw, got an empty network")
    kind = profile.device if profile is not None else device
    html = make_html(graphs, title, kind, StepTimes(profile))
    write_whole(target, html, force=force)
    n_edges = sum(len(set(graph.edges)) for graph in graphs)
    return Drawn(target, n_ops, len(graphs), n_edges, len(html.encode()))


def count_operators(graphs: Iterable[BlockGraph]) -> int:
    """Return the number of operators of all blocks."""
    return sum(len(graph.op_nodes()) for graph in graphs)


def make_html(graphs: Sequence[BlockGraph], title: str, device: str, times: StepTimes) -> str:
    """Return the self-contained page of graphs, with the kernels of a device."""
    context = current_context()
    kind = DeviceName.parse(device).kind
    known = {HOST_DEVICE: None, **dict.fromkeys(context.devices.names())}
    if kind not in known:
        raise context.devices.not_found(kind)
    others = [name for name in known if name != kind]
    choices = KernelChoices(context, [kind, *others])
    return _Page(title, graphs, choices, times, context).html()


class _Page:
    def __init__(
        self,
        title: str,
        graphs: Sequence[BlockGraph],
        choices: KernelChoices,
        times: StepTimes,
        context: Context,
    ) -> None:
        self._title = title
        self._graphs = graphs
        self._choices = choices
        self._times = times
        self._context = context

    def html(self) -> str:
        blocks = self._blocks(self._graphs[0].idx)
        details = collect_details(self._graphs, self._choices, self._times, self._context)
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self._title)}</title>\n<style>\n{_resource('page.css')}</style>\n"
            f"</head>\n<body>\n{self._header()}<main>\n"
            f'<div id="canvas">\n{self._table()}{blocks}</div>\n'
            '<aside id="details" aria-label="the chosen operator" hidden></aside>\n</main>\n'
            f'<script type="application/json" id="data">{_as_script(details)}</script>\n'
            f"<script>\n{_resource('page.js')}</script>\n</body>\n</html>\n"
        )

    def _header(self) -> str:
        n_ops = count_operators(self._graphs)
        counted = "1 operator" if n_ops == 1 else f"{n_ops} operators"
        facts = [counted, f"kernels of {self._choices.devices[0]}"]
        if len(self._graphs) > 1:
            facts.insert(1, f"{len(self._graphs)} blocks")
        facts += self._times.facts()
        roles = "".join(f'<span class="key {role}">{role}</span>' for role in _LEGEND)
        heat = '<span class="key heat">share of the time</span>' if self._times.is_known else ""
        has_layers = any(find_layers(graph) for graph in self._graphs)
        layers = '<button id="layers">close layers</button>' if has_layers else ""
        return (
            f"<header>\n<h1>{escape(self._title)}</h1>\n<p>{escape(' · '.join(facts))}</p>\n"
            f'<p class="legend">{roles}{heat}</p>\n'
            '<p class="hint">Choose an operator for its details: click, or Tab and Enter; Escape '
            "closes them.</p>\n"
            '<div class="tools"><input id="search" type="search" placeholder="type, variable or '
            '#number" aria-label="find operators"><output id="n-found"></output>'
            f'{layers}<button id="smaller" aria-label="smaller">−</button>'
            '<button id="larger" aria-label="larger">+</button>'
            '<button id="fit">fit</button></div>\n</header>\n'
        )

    def _table(self) -> str:
        """Return the steps in the order of execution, each with a link to its first operator."""
        rows = self._times.table()
        if not rows:
            return ""
        head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0][1])
        body = "".join(
            f'<tr data-op="{target}">' + "".join(f"<td>{escape(c)}</td>" for c in cells) + "</tr>\n"
            for target, cells in rows[1:]
        )
        return (
            f'<details class="steps"><summary>{escape(self._times.summary())}</summary>\n'
            f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></details>\n"
        )

    def _blocks(self, idx: int) -> str:
        """Return a block and, inside it, the blocks that its operators run."""
        graph = next(graph for graph in self._graphs if graph.idx == idx)
        name = f"block {idx}"
        if graph.owner is not None:
            outer, index, attr = graph.owner
            owner = next(g for g in self._graphs if g.idx == outer).op_nodes()[index]
            name += f": {attr} of {owner.name} #{index} in block {outer}"
        count = len(graph.op_nodes())
        inner = [g.idx for g in self._graphs if g.owner is not None and g.owner[0] == idx]
        return (
            f'<details class="block" id="block-{idx}" open><summary>{escape(name)}, '
            f"{count} operator{'s' if count != 1 else ''}</summary>\n"
            f"{draw_block(graph, partial(self._text, idx), partial(self._layer_text, graph))}"
            f"{''.join(map(self._blocks, inner))}</details>\n"
        )

    def _text(self, block: int, node: Node) -> NodeText:
        opened = [f"opens block {i}" for i in (node.op.block_attrs().values() if node.op else ())]
        kept = [read.name for read in node.reads if read.kind != "value" and read.slot != "step"]
        kernel = self._times.kernel(block, node.index)
        return NodeText(
            title=node.name,
            detail=", ".join([*opened, *dict.fromkeys(kept)]),
            kernel=kernel or self._choices.chosen(node, self._choices.devices[0]),
            time=self._times.text(block, node.index),
            color=self._times.color(block, node.index),
        )

    def _layer_text(self, graph: BlockGraph, layer: Layer) -> NodeText:
        nodes = [graph.nodes[number] for number in layer.members]
        indices = [node.index for node in nodes]
        counted = ", ".join(dict.fromkeys(node.name for node in nodes))
        return NodeText(
            title=layer.name if layer.role == "forward" else f"{layer.name} {layer.role}",
            detail=f"{len(nodes)} operators: {counted}",
            time=self._times.share_text(graph.idx, indices),
            color=self._times.color(graph.idx, *indices),
        )


def _resource(name: str) -> str:
    return files("opwright_kit.drawing").joinpath(name).read_text(encoding="utf-8")


def _as_script(data: Any) -> str:
    """Return JSON that cannot close its ``<script>`` element, whatever names it contains."""
    text = json.dumps(data, separators=(",", ":"), sort_keys=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
