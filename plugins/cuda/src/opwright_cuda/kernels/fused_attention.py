"""scaled_dot_product_attention of 16-bit floats on tensor cores, without storing scores."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES, ITEM_BYTES
from opwright_cuda.kernels.attention import Extents, attention_scale, extents_of, mask_of
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct, refuse_for
from opwright_cuda.source import own_source

MAX_SIZE: Final = 128
"""Maximum sizes of a key and of a value; more would exceed the registers of a thread."""

_UNIT: Final = 8
"""Elements of a 16-byte copy."""
_TILE: Final = 16
_THREADS: Final = 128
_WARPS: Final = _THREADS // 32
_KEYS: Final = 64
_TILES_EACH: Final = 2
"""Minimum number of tiles of keys in a part."""
_WIDE: Final = 64
"""The size up to which a warp has registers for two strips of rows, or for 64 other rows."""


def find_refusal(e: Extents) -> str | None:
    """Return why these kernels do not compute attention of these extents, or None if they do."""
    for name, n in (("q", e.size), ("v", e.columns)):
        if not 0 < n <= MAX_SIZE or n % _UNIT != 0:
            return f"{name} must have a last axis of a multiple of 8, up to {MAX_SIZE}, got {n}"
    return "there are no scores" if e.n_scores == 0 else None


def _describe(ctx: PrepareContext, plan: LaunchPlan) -> tuple[Extents, list[Argument]]:
    """Return the extents, and the last arguments of the kernels except the number of blocks."""
    e = extents_of(ctx)
    refuse_for(ctx, find_refusal(e))
    slot = "log_sum_exp"
    (rows,) = ctx.outputs.get(slot) or ctx.inputs[slot]
    described = np.array([e.rows, e.keys, 0], np.int64)
    described[2:].view(np.int32)[:] = e.size, e.columns
    return e, [attention_scale(ctx, e), mask_of(ctx, plan, rows), Struct(described)]


def _pad(n: int) -> int:
    return -(-n // _TILE) * _TILE


def _count(n: int, each: int) -> int:
    return -(-n // each)


def _tile_bytes(rows: int, width: int) -> int:
    """Return the shared memory of a tile, as ``PitchOf`` of fused_attention.h pads its rows."""
    return rows * (width + _UNIT) * ITEM_BYTES["float16"]


def _launch(
    plan: LaunchPlan, file: str, name: str, values: tuple[object, ...], grid: int | tuple[int, int],
    arguments: list[Argument], shared_bytes: int = 0,
) -> None:  # fmt: skip
    expression = f"{name}<{', '.join(map(str, values))}>"
    plan.launch(own_source(file), expression, grid, _THREADS, arguments, shared_bytes)


def _repair(
    plan: LaunchPlan, e: Extents, owns_keys: bool, arguments: list[Argument], last: list[Argument]
) -> None:
    """Recompute non-finite rows if keys may be hidden."""
    if not e.hides:
        return
    n = e.groups * (e.keys if owns_keys else e.rows)
    values = CTYPES[e.dtype], "true" if owns_keys else "false"
    _launch(
        plan,
        "repair_attention.cu",
        "repair_attention",
        values,
        _count(n, _WARPS),
        [*arguments, *last, np.int64(n)],
    )


def _divide_keys(e: Extents, n_blocks: int, multiprocessors: int) -> tuple[int, int]:
    """Return the number of parts of the keys, and the keys of a part; few rows need many parts."""
    tiles = _count(e.keys, _KEYS)
    parts = max(min(2 * multiprocessors // n_blocks, tiles // _TILES_EACH), 1)
    each = _count(tiles, parts)
    return _count(tiles, each), each * _KEYS


def _fill_in_attention(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute blocks of rows, with the softmax of the keys so far."""
    e, last = _describe(ctx, plan)
    size, columns = _pad(e.size), _pad(e.columns)
    out, log_sum_exp = plan.output("out"), plan.output("log_sum_exp")
    operands = [plan.input(slot) for slot in ("q", "k", "v")]
    # Two strips of rows per warp read each key once for both, if enough blocks remain.
    two = max(size, columns) <= _WIDE and e.groups * e.rows >= 256 * plan.gpu.multiprocessors
    strips = 2 if two else 1
    rows = _WARPS * _TILE * strips
    each = _count(e.rows, rows)
    parts, keys_each = _divide_keys(e, e.groups * each, plan.gpu.multiprocessors)
    n_lines, partial, logarithms = e.groups * e.rows, None, log_sum_exp
    if parts > 1:
        partial = plan.workspace(parts * n_lines * e.columns * ITEM_BYTES["float32"])
        logarithms = plan.workspace(parts * n_lines * ITEM_BYTES["float32"])
    shared = _tile_bytes(rows + _KEYS, size) + _tile_bytes(_KEYS, columns)
    arguments: list[Argument] = [out, partial, logarithms, *operands, *last]
    arguments += [np.int64(each), np.int64(keys_each)]
    values = CTYPES[e.dtype], size, columns, strips
    _launch(
        plan,
        "fused_attention.cu",
        "fused_attention",
        values,
        (e.groups * each, parts),
        arguments,
        shared,
    )
    if parts > 1:
        arguments = [out, log_sum_exp, partial, logarithms]
        arguments += [np.int64(n_lines), np.int64(parts), np.int32(e.columns)]
        n_blocks = _count(n_lines, _WARPS)
        _launch(
            plan, "fused_attention.cu", "combine_attention", (CTYPES[e.dtype],), n_blocks, arguments
        )
    _repair(plan, e, False, [None, out, *operands, None, log_sum_exp, None], last)


ATTENTION: Final = Kernel(_fill_in_attention)


def _fill_in_attention_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Recompute the weights block by block, once for the rows of q and once for the keys."""
    e, last = _describe(ctx, plan)
    out_grad, log_sum_exp = plan.input("out_grad"), plan.input("log_sum_exp")
    operands = [*(plan.input(slot) for slot in ("q", "k", "v")), out_grad]
    n_rows = e.groups * e.rows
    means = plan.workspace(n_rows * ITEM_BYTES["float32"])
    arguments: list[Argument] = [means, plan.input("out"), out_grad, np.int64(n_rows)]
    arguments.append(np.int32(e.columns))
    _launch(
        plan,
        "fused_attention_grad.cu",
        "attention_means",
        (CTYPES[e.dtype],),
        _count(n_rows, _WARPS),
        arguments,
    )
    q_grad, k_grad, v_grad = (plan.optional_output(f"{slot}_grad") for slot in "qkv")
    facts = [log_sum_exp, means]
    if q_grad is not None:
        _launch_grad(plan, e, False, [q_grad, None, *operands, *facts], last)
    if k_grad is not None or v_grad is not None:
        _launch_grad(plan, e, True, [k_grad, v_grad, *operands, *facts], last)


def _launch_grad(
    plan: LaunchPlan, e: Extents, owns_keys: bool, arguments: list[Pointer | None],
    last: list[Argument],
) -> None:  # fmt: skip
    size, columns = _pad(e.size), _pad(e.columns)
    others = _KEYS if max(size, columns) <= _WIDE else _KEYS // 2
    rows = _WARPS * _TILE
    each = _count(e.keys if owns_keys else e.rows, rows)
    shared = sum(_tile_bytes(rows + 2 * others, width) for width in (size, columns))
    values = CTYPES[e.dtype], size, columns, others, "true" if owns_keys else "false"
    all_arguments: list[Argument] = [*arguments, *last, np.int64(each)]
    _launch(
        plan,
        "fused_attention_grad.cu",
        "fused_attention_grad",
        values,
        e.groups * each,
        all_arguments,
        shared,
    )
    _repair(plan, e, owns_keys, [*arguments], last)


ATTENTION_GRAD: Final = Kernel(_fill_in_attention_grad)
