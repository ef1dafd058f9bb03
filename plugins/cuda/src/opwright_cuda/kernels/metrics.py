"""auc and precision_recall compute metrics from counts accumulated over batches."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.kernels.lines import lines_along, streamed
from opwright_cuda.kernels.losses import describe_labels
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, count_of
from opwright_cuda.source import own_source

BINS_OF_THREAD: Final = 16
"""``kBinsOfThread`` of metrics.cu."""

_AREA_BYTES: Final = 24
_SCORES_BYTES: Final = 56
_MOST_PARTS: Final = 256
_COUNTS: Final = 4


def _fill_in_auc(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Count the scores in bins, then the ordered pairs."""
    (x,), thresholds = ctx.inputs["x"], ctx.attrs["num_thresholds"]
    n, n_bins, source = count_of(x), thresholds + 1, own_source("metrics.cu")
    states = [plan.output(f"{slot}_out") for slot in ("positives", "negatives")]
    labels = describe_labels(ctx, plan, 2)
    text = plan.fault_text("auc: x must be probabilities in [0, 1], but row {value} is outside")
    arguments: list[Argument] = [*states, plan.input("x"), labels, np.int64(n)]
    arguments += [np.int64(thresholds), text]
    expression = f"count_scores<{CTYPES[x.dtype]}>"
    plan.launch(source, expression, blocks_for(n, plan), THREADS, arguments)
    n_parts = -(-n_bins // (THREADS * BINS_OF_THREAD))
    parts = plan.workspace(n_parts * _AREA_BYTES)
    plan.launch(source, "join_bins", n_parts, THREADS, [parts, *states, np.int64(n_bins)])
    plan.launch(source, "join_parts", 1, THREADS, [plan.output("auc"), parts, np.int64(n_parts)])


AUC: Final = Kernel(_fill_in_auc)


def _fill_in_precision_recall(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Count correct and wrong rows per class, add the counts to the states; compute the means."""
    (x,) = ctx.inputs["x"]
    rows, classes = x.shape
    source, n_bytes = own_source("metrics.cu"), 8 * _COUNTS * classes
    counts = plan.workspace(max(n_bytes, 8))
    plan.fill(counts, n_bytes)
    team = streamed(lines_along(x.shape, 1), x.dtype)
    arguments: list[Argument] = [counts, plan.input("x"), describe_labels(ctx, plan, classes)]
    team.launch_typed(plan, source, "count_guesses_lines", x.dtype, arguments)
    # The number of parts does not depend on the GPU, so neither do the sums.
    n_parts = min(-(-classes // THREADS), _MOST_PARTS)
    parts = plan.workspace(max(2 * n_parts * _SCORES_BYTES, 8))
    arguments = [parts, plan.output("states_out"), counts, np.int64(classes), np.int64(rows)]
    plan.launch(source, "add_counts", n_parts, THREADS, arguments)
    arguments = [plan.output("batch"), plan.output("total"), parts]
    arguments += [np.int64(n_parts), np.int64(classes)]
    plan.launch(source, "find_metrics", 2, THREADS, arguments)


PRECISION_RECALL: Final = Kernel(_fill_in_precision_recall)
