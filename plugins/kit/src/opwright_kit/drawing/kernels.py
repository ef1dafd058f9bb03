"""Finds which kernel would be chosen for each operator of a drawing on each device, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from opwright import Context
from opwright.errors import OpwrightError
from opwright.kernel import explain

if TYPE_CHECKING:
    from opwright_kit.drawing.graph import Node


class KernelChoices:
    """Explanations by operator type, device and dtype; each is queried once.

    Attributes
    ----------
    devices : tuple of str
        Device types, beginning with the drawn device.
    found : list of dict
        The result of `explain`, as plain data, in the order of candidates.
    """

    def __init__(self, context: Context, devices: Sequence[str]) -> None:
        self._context = context
        self.devices = tuple(devices)
        self.found: list[dict[str, Any]] = []
        self._known: dict[tuple[str, str, str | None], int] = {}

    def explain(self, node: Node, device: str) -> int:
        """Return the index in `found` of the explanation for an operator."""
        if node.op is None:
            raise ValueError(f"{node.name}: a variable has no kernel")
        key = (node.op.type, device, _dispatch_dtype(node))
        if key not in self._known:
            self._known[key] = len(self.found)
            self.found.append(self._ask(*key))
        return self._known[key]

    def chosen(self, node: Node, device: str) -> str:
        """Return ``device/library`` of the kernel, or a message if there is none."""
        answer = self.found[self.explain(node, device)]
        for candidate in answer["candidates"]:
            if candidate["verdict"] == "chosen":
                return f"{device}/{candidate['library']}"
        otherwise: str = answer["otherwise"]
        # The text after the comma is the reason, which is shown only in the details of an operator.
        return otherwise.partition(",")[0] or f"no kernel on {device}"

    def _ask(self, op_type: str, device: str, dtype: str | None) -> dict[str, Any]:
        try:
            return explain(op_type, device, dtype, context=self._context).to_json()
        except OpwrightError as error:
            return {
                "op_type": op_type,
                "device": device,
                "dtype": dtype,
                "candidates": [],
                "notes": [str(error)],
                "otherwise": "",
            }


def _dispatch_dtype(node: Node) -> str | None:
    """Return the dtype that selects the kernel, or None if the program does not determine it."""
    if node.op is None:
        return None
    slot = node.op.definition.proto.dispatch_slot
    for read in node.reads:
        if read.slot == slot and read.type:
            return read.type.split("[")[0]
    dtype = node.op.attrs.get(slot)
    return dtype if isinstance(dtype, str) else None
