"""Share: the shard of each batch that one of several processes gets."""

from __future__ import annotations

from typing import Final, NamedTuple

from opwright.errors import AttributeValueError
from opwright_nn.parallel import check_group, find_team


class Share(NamedTuple):
    """The shard of each batch that one of several processes gets.

    Attributes
    ----------
    rank, size : int
        The number of the process, and how many there are.
    """

    rank: int = 0
    size: int = 1

    def of(self, start: int, stop: int) -> slice:
        """Return the shard of the rows from `start` to `stop`; the sizes differ by at most 1."""
        count = stop - start
        first, last = (count * rank // self.size for rank in (self.rank, self.rank + 1))
        return slice(start + first, start + last)


WHOLE: Final = Share()
"""The shard of a single process."""


def find_share(who: str, shard: bool | str | None, size: int, rows: int, drop_last: bool) -> Share:
    """Return the shard of each batch that this process gets.

    Parameters
    ----------
    who : str
        The caller, for messages.
    shard : bool, str or None
        As for `batches`.
    size : int
        Rows in a batch.
    rows : int
        The number of all rows.
    drop_last : bool
        Whether a last batch with fewer rows is skipped.

    Raises
    ------
    AttributeValueError
        A batch has fewer rows than there are processes.
    """
    if shard is None or shard is False:
        return WHOLE
    team = find_team(who, check_group(who, "shard", shard))
    share = Share(team.rank, team.size)
    left = 0 if drop_last else rows % size
    if size < share.size or 0 < left < share.size:
        which, count = ("a batch", size) if size < share.size else ("the last batch", left)
        raise AttributeValueError(
            f"{who}: each of the {share.size} processes must get a row of each batch, got {count} "
            f"in {which}; pass a larger size, or drop_last=True"
        )
    return share
