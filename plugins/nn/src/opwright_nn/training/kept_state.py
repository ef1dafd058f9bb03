"""The state of training in a file: its fields, and the relations between them."""

from __future__ import annotations

from typing import Any, Final

from opwright_nn import fields
from opwright_nn.datasets.position import check_position
from opwright_nn.training.history import unpack_records
from opwright_nn.training.source import Source

# The totals and each callback check their own state.
_FIELDS: Final = {
    "epoch": fields.whole(),
    "done": fields.whole(),
    "n_steps": fields.whole(),
    "seconds": fields.real,
    "totals": fields.named(fields.anything),
    "stop_reason": fields.optional(fields.text),
    "history": unpack_records,
    "callbacks": fields.named(fields.named(fields.anything)),
    "position": fields.optional(check_position),
}
_check_fields: Final = fields.fields(_FIELDS)


def check_state(state: object) -> dict[str, Any]:
    """Return the result of `Training.state`, with the rows of the history.

    FormatError if a field has a wrong type or range, or fields contradict each other.
    """
    kept: dict[str, Any] = _check_fields("training", state)
    if kept["stop_reason"] == "":
        fields.refuse("training.stop_reason", "text that is not empty", "")
    epoch, rows = kept["epoch"], kept["history"]
    numbers = [row.get("epoch") for row in rows]
    steps = [0, *(row.get("steps", -1) for row in rows)]
    if len(rows) != epoch or numbers != list(range(1, epoch + 1)):
        fields.refuse("training.history", f"a row for each of {epoch} epochs", numbers)
    if steps != sorted(steps) or steps[-1] + kept["done"] != kept["n_steps"]:
        rule = f"{kept['n_steps']} steps with the {kept['done']} of the current epoch"
        fields.refuse("training.history", f"rows whose steps increase up to {rule}", steps[1:])
    return kept


def check_counts(kept: dict[str, Any], source: Source) -> None:
    """Raise FormatError if the counts of a state do not match its position in the data."""
    position, per_epoch = kept["position"], source.per_epoch
    if position is None or per_epoch is None:
        return
    wanted = {
        "done": kept["n_steps"] - kept["epoch"] * per_epoch,
        "n_steps": position["epoch"] * per_epoch + position["batch"],
    }
    for name, count in wanted.items():
        if kept[name] != count or kept["done"] > per_epoch:
            rule = f"{count} after {kept['epoch']} epochs of {per_epoch} batches"
            fields.refuse(f"training.{name}", rule, kept[name])
