"""Control flow as data: how an operator with blocks is lowered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias


class BodyNames(NamedTuple):
    """One body of an operator: the index of its block, and its variables that enter and leave."""

    block: int
    entering: tuple[str, ...]
    leaving: tuple[str, ...]


class Branch(NamedTuple):
    """Control flow: one of several blocks runs, as `condition` says.

    Attributes
    ----------
    condition : str
        The input slot with a bool of one element: the first block where it is true.
    captured : str
        The duplicable input slot with the outer variables that the blocks read, by their names.
    outputs : str
        The duplicable output slot.
    blocks : tuple of (str, str)
        Of each branch: its BLOCK attribute, and the STRINGS attribute with the names of the
        block's variables that become the outputs.
    """

    condition: str
    captured: str
    outputs: str
    blocks: tuple[tuple[str, str], ...]

    def bodies(self, attrs: Mapping[str, Any]) -> Iterator[BodyNames]:
        """Yield the branches that the attributes of an operator give."""
        for block, outputs in self.blocks:
            if attrs.get(block) is not None:
                yield BodyNames(attrs[block], (), tuple(attrs.get(outputs) or ()))


class Loop(NamedTuple):
    """Control flow: a block runs as long as its condition holds.

    Attributes
    ----------
    condition : str
        The input slot with a bool of one element that is asked before the first turn.
    carried : str
        The duplicable input slot with the first values of the variables that turns hand on.
    captured : str
        The duplicable input slot with the outer variables that the block reads, by their names.
    outputs : str
        The duplicable output slot: the carried variables after the last turn.
    block : str
        The BLOCK attribute.
    block_inputs : str
        The STRINGS attribute with the block's names of the carried variables.
    block_outputs : str
        The STRINGS attribute with the names of their next values.
    block_condition : str
        The STRING attribute with the name of the block's next condition.
    max_iterations : str or None
        The INT attribute that bounds the number of turns.
    """

    condition: str
    carried: str
    captured: str
    outputs: str
    block: str
    block_inputs: str
    block_outputs: str
    block_condition: str
    max_iterations: str | None = None

    def bodies(self, attrs: Mapping[str, Any]) -> Iterator[BodyNames]:
        """Yield the body where the attributes of an operator give it."""
        if attrs.get(self.block) is not None:
            condition = attrs.get(self.block_condition)
            leaving = (*(attrs.get(self.block_outputs) or ()), *((condition,) if condition else ()))
            entering = tuple(attrs.get(self.block_inputs) or ())
            yield BodyNames(attrs[self.block], entering, leaving)


Control: TypeAlias = Branch | Loop
