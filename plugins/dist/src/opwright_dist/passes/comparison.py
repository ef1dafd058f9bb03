"""``dist_compare``: a pass that compares the processes' programs and collectives in each run.

A collective is matched with the next collective of the other processes. If plans differed in a
fetch, a shape or a version, data of equal size would be mixed up without an error, and if programs
differed, parameters would diverge. The comparison overlaps with the plan, and the first collective
waits for its result.
"""

from __future__ import annotations

import hashlib
from typing import Final

from opwright.errors import ProgramError
from opwright.op import format_shape
from opwright.rewriting import Graph, LoweredOp
from opwright_dist.groups.world import current_world
from opwright_dist.names import COMPARED_TYPES
from opwright_dist.passes.program_entries import list_entries, list_operators

_WORDS: Final = ("reduce", "root", "axis", "unequal_rows")


def dist_compare(graph: Graph) -> None:
    """Insert one ``dist.compare_plans`` per group before all other operators.

    Raises
    ------
    ProgramError
        If a collective of several processes is in a loop or branch.
    """
    ops = [op for op in graph.of_type(*COMPARED_TYPES) if _meets(op)]
    if ops and graph.is_body:
        raise ProgramError(
            f"{ops[0].type.removesuffix('_start')}: a collective must be outside loops and "
            "branches, since their path depends on the data of each process, got a collective "
            f"of group {ops[0].attrs['group']!r} inside; move it out"
        )
    if not ops or not graph.is_served("dist.compare_plans"):
        return
    by_group: dict[str, list[LoweredOp]] = {}
    for op in ops:
        by_group.setdefault(op.attrs["group"], []).append(op)
    # The program is compared, not the plan, because the best kernels differ between processors.
    program = graph.program
    shared = list_operators(graph.operators) if program is None else list_entries(program)
    made = []
    for group, members in by_group.items():
        entries = shared + [f"collective {n}: {describe(op)}" for n, op in enumerate(members, 1)]
        entries.append("the end of the collectives")
        attrs = {"group": group, "entries": entries, "digest": digest(entries)}
        made.append(graph.make("dist.compare_plans", {}, {}, attrs, like=members[0]))
    # The comparison is placed after the feed copies, where the device graph begins.
    place = next((i for i, op in enumerate(graph.ops) if not op.is_copy), len(graph.ops))
    graph.ops[place:place] = made
    graph.forget_uses()


def _meets(op: LoweredOp) -> bool:
    return current_world().group(op.attrs["group"]).size > 1


def describe(op: LoweredOp) -> str:
    """Return what must be equal on all processes: type, attributes, dtype and shapes."""
    if op.type == "dist.part":
        return f"{op.type}(seeds={list(op.attrs['seeds'])})"
    metas = [value.meta for value in op.input("x")]
    words = [f"{name}={op.attrs[name]}" for name in _WORDS if name in op.attrs]
    weighted = op.attrs.get("unequal_rows") == "weight"
    if "rows" in op.definition.input_index and op.input("rows") and not weighted:
        words.append(f"rows={op.input('rows')[0].meta.shape[0]}")
    shapes = "+".join(format_shape(meta.shape) for meta in metas)
    kind = op.type.removesuffix("_start")  # the position of the wait can differ
    return f"{kind}({', '.join(words)}) of {metas[0].dtype} {shapes}"


def digest(entries: list[str]) -> int:
    """Return a 63-bit digest of the entries."""
    hashed = hashlib.sha256("\0".join(entries).encode()).digest()
    return int.from_bytes(hashed[:8], "little") >> 1
