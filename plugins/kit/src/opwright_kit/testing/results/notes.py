"""Notes of the next action of a process, in case the action crashes the process."""

from __future__ import annotations

from typing import NamedTuple


class Note(NamedTuple):
    """The next action of a process.

    Attributes
    ----------
    what : str
        The key of the kernel, or another activity: ``"acme.swish[cpu, float32, acme]"``.
    sample : str
        As `Sample.describe` returns it; empty if there is none.
    number : int
        The index of the sample; -1 if there is none.
    dtype : str
        The dispatch dtype for which it was drawn.
    """

    what: str = ""
    sample: str = ""
    number: int = -1
    dtype: str = ""
