"""Explains why a kernel is chosen: every candidate, accepted or rejected, with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from opwright.context.context import Context, current_context
from opwright.describe.definition import OpDefinition
from opwright.describe.dtypes import canonical_dtype
from opwright.errors import AttributeTypeError, OpwrightError
from opwright.messages.arguments import suggest_arguments
from opwright.messages.tables import align
from opwright.packages import ANY, fits_dtype
from opwright.packages.registrations import key_text
from opwright.registry import DeviceName, KernelEntry
from opwright.registry.kernels import WOULD_REFUSE, find_refusals

_COLUMNS = ("", "library", "device", "dtype", "priority", "package", "verdict", "reason")


class Candidate(NamedTuple):
    """One kernel of the operator, and whether it is used.

    Attributes
    ----------
    entry : KernelEntry
        The kernel.
    rank : int
        1 for the first candidate of its dtype; 0 for a rejected kernel.
    verdict : str
        ``"chosen"``, ``"accepted"`` (tried if all earlier candidates refuse) or ``"rejected"``.
    reason : str
        The reason for the verdict; empty for the chosen kernel.
    """

    entry: KernelEntry
    rank: int
    verdict: str
    reason: str

    @property
    def is_accepted(self) -> bool:
        """Whether the kernel may be used."""
        return self.rank > 0

    def to_json(self) -> dict[str, Any]:
        """Return the candidate as plain data."""
        entry = self.entry
        return {
            **entry.key._asdict(),
            "priority": entry.priority,
            "package": entry.package._asdict(),
            "target": entry.target if isinstance(entry.target, str) else repr(entry.target),
            "verdict": self.verdict,
            "rank": self.rank or None,
            "reason": self.reason,
        }


@dataclass(eq=False, repr=False)
class Explanation:
    """All kernels of one operator type; ``print(explain("softmax"))`` shows them as a table.

    Attributes
    ----------
    op_type, device : str
        The operator type and the device type that were explained.
    dtype : str or None
        None for any dtype.
    candidates : list of Candidate
        First the accepted kernels, in the order in which they are tried, then the rejected kernels.
    notes : list of str
        The applied pin, and plugins that failed to load or cannot report whether they refuse.
    otherwise : str
        How the operator runs without a kernel; empty if it cannot.
    """

    op_type: str
    device: str
    dtype: str | None
    candidates: list[Candidate]
    notes: list[str]
    otherwise: str = ""

    @property
    def chosen(self) -> KernelEntry | None:
        """The kernel that is used, or None if none fits."""
        return next((c.entry for c in self.candidates if c.verdict == "chosen"), None)

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as plain data."""
        return {**vars(self), "candidates": [candidate.to_json() for candidate in self.candidates]}

    def __str__(self) -> str:
        title = key_text(self.op_type, self.device, self.dtype or "any dtype")
        if self.chosen is None:
            title += f": {self.otherwise or 'no kernel fits'}"
        rows = [_COLUMNS, *map(_row, self.candidates)] if self.candidates else []
        return "\n".join([title, *align(rows, right={4}), *self.notes])

    __repr__ = __str__


def _row(candidate: Candidate) -> tuple[str, ...]:
    entry = candidate.entry
    return (
        str(candidate.rank or ""),
        entry.library,
        entry.device,
        entry.dtype,
        str(entry.priority),
        entry.package.label,
        candidate.verdict,
        candidate.reason,
    )


@suggest_arguments
def explain(
    op_type: str,
    device: str = "cpu",
    dtype: object = None,
    *,
    context: Context | None = None,
    refusals: Iterable[tuple[KernelEntry, str]] = (),
) -> Explanation:
    """List all kernels of an operator, with the reason why each is used or not.

    Kernels that fit the device and dtype are imported, since a failed import rejects a kernel. A
    kernel is also rejected if its plugin reports that it refuses on this machine.

    Parameters
    ----------
    op_type : str
        Operator type.
    device : str
        Device type; a number after it, as in ``"cuda:1"``, is ignored.
    dtype : str, numpy.dtype or type, optional
        Dtype that selects the kernel; by default any.
    context : Context, optional
        By default the current Context.
    refusals : iterable of (KernelEntry, str)
        Kernels that refused when a plan was prepared, and why: a kernel may refuse certain shapes
        or attributes, which are unknown to this function.

    Returns
    -------
    Explanation
        ``str()`` is a table, ``to_json()`` plain data.

    Raises
    ------
    OperatorNotFoundError
        For an unknown operator type.
    KernelNotFoundError
        For a device that has neither a plugin nor a kernel of the operator.
    DtypeError
        For an unknown dtype.
    """
    context = current_context() if context is None else context
    _check_types(op_type, context)
    device = DeviceName.parse(device, "explain").kind
    name = None if dtype is None else canonical_dtype(dtype)
    definition = context.ops.get(op_type)
    known = {*context.devices.names(), *context.kernels.devices_of(op_type)}
    if device not in known and ANY not in known:
        raise context.kernels.not_found(op_type, device, name or ANY, devices=known)
    try:
        refused = {entry.key: f"refused: {reason}" for entry, reason in refusals}
    except (AttributeError, TypeError, ValueError):
        raise AttributeTypeError(
            f"explain: refusals must be a list of (KernelEntry, str), got {refusals!r}; take the "
            "entries from explain(op_type).candidates"
        ) from None
    accepted: list[Candidate] = []
    rejected: list[Candidate] = []
    reasons = {
        entry: _reject(context, entry, device, name) or refused.get(entry.key)
        for entry in _ordered(context, op_type)
    }
    asked = {e: (e.find_refusal, e.package) for e, reason in reasons.items() if reason is None}
    options = context.options.fill(context.chosen_options)
    foreseen, faults = find_refusals(asked.values(), options)
    reasons |= {e: WOULD_REFUSE + foreseen[key] for e, key in asked.items() if key in foreseen}
    for entry, reason in reasons.items():
        if reason is not None:
            rejected.append(Candidate(entry, 0, "rejected", reason))
            continue
        # Without a given dtype, each dtype has a first kernel, since dtypes do not compete.
        rivals = [
            other for other in accepted if name or fits_dtype((other.entry.dtype,), entry.dtype)
        ]
        rank = 1 + len(rivals)
        waiting = "tried if the kernels above refuse" if rank > 1 else ""
        accepted.append(Candidate(entry, rank, "accepted" if rank > 1 else "chosen", waiting))
    pin = context.pins.get(op_type) or context.pins.get(ANY)
    pins = [] if pin is None else [f"the Context pins {op_type} to the library {pin!r}"]
    notes = [*pins, *context.report.lines(), *faults]
    otherwise = _without_kernel(definition)
    return Explanation(op_type, device, name, accepted + rejected, notes, otherwise)


def _check_types(op_type: object, context: object) -> None:
    if not isinstance(op_type, str):
        raise AttributeTypeError(
            f"explain: op_type must be a string, got {op_type!r} ({type(op_type).__name__}); "
            "write explain('softmax'), for example"
        )
    if not isinstance(context, Context):
        raise AttributeTypeError(
            f"explain: context must be a Context or None, got {context!r} "
            f"({type(context).__name__}); pass opwright.current_context()"
        )


def _without_kernel(definition: OpDefinition) -> str:
    """Return how an operator runs if no kernel fits, or an empty string if it cannot run."""
    if definition.body is not None:
        return "a composite, which runs as the simpler operators of its body"
    if definition.control is not None:
        return "control flow, whose blocks run as separate plans"
    return ""


def _ordered(context: Context, op_type: str) -> list[KernelEntry]:
    entries = context.kernels.sort(context.kernels.entries(op_type))
    preferred = context.pins.get(op_type) or context.pins.get(ANY)
    return sorted(entries, key=lambda entry: preferred not in {None, entry.library})


def _reject(context: Context, entry: KernelEntry, device: str, dtype: str | None) -> str | None:
    if entry.device not in {device, ANY}:
        return f"is for the device {entry.device}"
    if dtype is not None and not fits_dtype((entry.dtype,), dtype):
        return f"is for {entry.dtype}"
    pinned = context.pins.get(entry.op_type)
    if pinned not in {None, entry.library}:
        return f"the Context pins {entry.op_type} to {pinned}"
    try:
        entry.load()
    except OpwrightError as error:
        return f"failed to load: {error}"
    return None
