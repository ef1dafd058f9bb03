"""Data that describes the control flow of operators with blocks, for lowering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from opwright.records import NamedTuple


class BodyNames(NamedTuple):
    """One body of an operator: its block's index, and the variables that it takes and returns."""

    block: int
    entering: tuple[str, ...]
    leaving: tuple[str, ...]


class Branch(NamedTuple):
    """Control flow in which one of two blocks runs, selected by `condition`.

    Attributes
    ----------
    condition : str
        The input slot for a one-element bool; if it is true, the first block runs.
    captured : str
        The duplicable input slot for the outer variables that the blocks read by their names.
    outputs : str
        The duplicable output slot.
    blocks : tuple of (str, str)
        For each branch, its BLOCK attribute, and the STRINGS attribute that names the variables of
        the block that become the outputs.
    """

    condition: str
    captured: str
    outputs: str
    blocks: tuple[tuple[str, str], ...]

    def bodies(self, attrs: Mapping[str, Any]) -> Iterator[BodyNames]:
        """Yield the branches named by the attributes of an operator."""
        for block, outputs in self.blocks:
            if attrs.get(block) is not None:
                yield BodyNames(attrs[block], (), tuple(attrs.get(outputs) or ()))


class Loop(NamedTuple):
    """Control flow in which a block runs repeatedly, each time on the previous iteration's results.

    With a condition, the block runs while the condition holds. Without a condition, the block runs
    once for each element of the sequences.

    Attributes
    ----------
    condition : str or None
        The input slot for a one-element bool that is read before the first iteration.
    carried : str
        The duplicable input slot for the initial values of the carried variables.
    captured : str
        The duplicable input slot for the outer variables that the block reads by their names.
    outputs : str
        The duplicable output slot for the carried variables after the last iteration.
    block : str
        The BLOCK attribute.
    block_inputs : str
        The STRINGS attribute with the block's names of the carried variables.
    block_outputs : str
        The STRINGS attribute with the names of their next values.
    block_condition : str or None
        The STRING attribute with the name of the block's next condition.
    max_iterations : str or None
        The INT attribute that limits the iterations. Without condition and sequences, exactly this
        many iterations run.
    sequences : str or None
        The duplicable input slot for arrays; each iteration reads one element along axis 0.
    block_elements : str or None
        The STRINGS attribute with the block's names of these elements.
    stacks : tuple of (str, str)
        Duplicable output slots and, for each, the STRINGS attribute with the block's names of the
        values that every iteration adds, stacked along axis 0. The last pair is for values saved
        for a gradient.
    turns : str or None
        The input slot for the number of iterations to run, a one-element int64.
    turns_taken : str or None
        The output slot for the number of iterations that ran, a one-element int64.
    reverse : str or None
        The BOOL attribute; if it is true, the first iteration reads the last elements.
    checkpoint_every : str or None
        The INT attribute k; the gradient keeps the carried variables of every k-th iteration only.
    segment : str or None
        The INT attribute k; an iteration reads or adds k elements of the `segmented` names, and the
        last iteration the remaining elements. A gradient saves an iteration's inputs and recomputes
        it.
    segmented : str or None
        The STRINGS attribute with names of `block_elements` and of stacked values.
    """

    condition: str | None
    carried: str
    captured: str
    outputs: str
    block: str
    block_inputs: str
    block_outputs: str
    block_condition: str | None
    max_iterations: str | None = None
    sequences: str | None = None
    block_elements: str | None = None
    stacks: tuple[tuple[str, str], ...] = ()
    turns: str | None = None
    turns_taken: str | None = None
    reverse: str | None = None
    checkpoint_every: str | None = None
    segment: str | None = None
    segmented: str | None = None

    def bodies(self, attrs: Mapping[str, Any]) -> Iterator[BodyNames]:
        """Yield the body if the attributes of an operator name it."""
        if attrs.get(self.block) is not None:
            stacked = [name for _, names in self.stacks for name in names_in(attrs, names)]
            condition = attrs.get(self.block_condition or "")
            leaving = names_in(attrs, self.block_outputs) + ((condition,) if condition else ())
            entering = names_in(attrs, self.block_inputs) + names_in(attrs, self.block_elements)
            yield BodyNames(attrs[self.block], entering, (*leaving, *stacked))


Control: TypeAlias = Branch | Loop


def names_in(attrs: Mapping[str, Any], attr: str | None) -> tuple[str, ...]:
    """Return the names in a STRINGS attribute, or an empty tuple if `attr` is None."""
    return tuple(attrs.get(attr or "") or ())
