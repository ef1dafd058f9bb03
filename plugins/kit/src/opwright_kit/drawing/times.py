"""The profile data of each operator in a drawing: time, share and color."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from opwright_kit.profiling import Profile, ProfileRow

_COLD: Final = (255, 250, 240)
_HOT: Final = (253, 141, 60)
"""Dark text is readable on both colors."""

_TITLE: Final = ("step", "operator", "place", "kernel", "calls", "median", "min", "share", "memory")


class StepTimes:
    """The rows of a profile, by operator; empty without a profile."""

    def __init__(self, profile: Profile | None) -> None:
        self._profile = profile
        self._rows: dict[tuple[int, int], list[ProfileRow]] = defaultdict(list)
        for row in profile.rows if profile is not None else ():
            for index in row.operators:
                self._rows[row.block, index].append(row)
        shares = [self.share(*key) for key in self._rows]
        self._most = max(shares, default=0.0) or 1.0

    @property
    def is_known(self) -> bool:
        """Whether there is a profile."""
        return self._profile is not None

    def share(self, block: int, *indices: int) -> float:
        """Return the total share, in [0, 1], of the steps that compute any of these operators."""
        rows = {id(r): r for index in indices for r in self._rows.get((block, index), ())}
        return math.fsum(row.share for row in rows.values())

    def share_text(self, block: int, indices: Iterable[int]) -> str:
        """Return the total share of the steps whose first operator is one of these operators."""
        own = set(indices)
        rows = [row for index in own for row in self._rows.get((block, index), ())]
        begun = {id(row): row for row in rows if row.operators[0] in own}
        if not begun:
            return f"with #{rows[0].operators[0]}" if rows else ""
        return f"{100 * math.fsum(row.share for row in begun.values()):.0f} %"

    def color(self, block: int, *indices: int) -> str:
        """Return a color for the share of the time, or an empty string if nothing was measured."""
        if not any((block, index) in self._rows for index in indices):
            return ""
        # The square root makes small shares visible. A layer may exceed the largest operator share.
        heat = math.sqrt(min(self.share(block, *indices) / self._most, 1.0))
        parts = [round(c + (h - c) * heat) for c, h in zip(_COLD, _HOT, strict=True)]
        return f"#{parts[0]:02x}{parts[1]:02x}{parts[2]:02x}"

    def text(self, block: int, index: int) -> str:
        """Return the time and share to show on an operator, or on the first of fused operators."""
        rows = self._rows.get((block, index), [])
        own = [row for row in rows if row.operators[0] == index]
        if not own:
            return f"with #{rows[0].operators[0]}" if rows else ""
        from opwright.commands import format_seconds

        seconds = math.fsum(row.median_s for row in own)
        share = math.fsum(row.share for row in own)
        return f"{format_seconds(seconds)} {100 * share:.0f} %"

    def kernel(self, block: int, index: int) -> str:
        """Return the kernel that ran, or an empty string if it is unknown or there were several."""
        kernels = {row.kernel for row in self._rows.get((block, index), ())}
        return kernels.pop() if len(kernels) == 1 else ""

    def details(self, block: int, index: int) -> list[dict[str, Any]]:
        """Return the steps of an operator as plain data for the page."""
        from opwright.commands import format_seconds
        from opwright_kit.profiling.report import format_bytes

        return [
            {
                "step": row.step,
                "type": row.op_type,
                "kernel": f"{row.kernel} {row.package}".strip(),
                "operators": [f"op-{row.block}-{other}" for other in row.operators],
                "outputs": [f"{name} {dtype}{list(shape)}" for name, dtype, shape in row.outputs],
                "calls": f"{row.calls:g}",
                "median": format_seconds(row.median_s),
                "min": format_seconds(row.min_s),
                "share": f"{100 * row.share:.1f} %",
                "memory": format_bytes(row.output_bytes),
                "python": row.is_python,
            }
            for row in self._rows.get((block, index), ())
        ]

    def facts(self) -> list[str]:
        """Return the description of the profile for the page header."""
        profile = self._profile
        if profile is None:
            return []
        from opwright.commands import format_seconds

        return [
            f"one run {format_seconds(profile.run_s)}",
            f"{len(profile.rows)} steps {format_seconds(profile.total_s)}",
            f"median of {profile.n_runs} runs on {profile.device}, {profile.n_threads} threads",
            *profile.notes,
        ]

    def summary(self) -> str:
        """Return the line above the table of steps."""
        return f"{len(self._profile.rows) if self._profile else 0} steps in the order of execution"

    def table(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the steps as rows, the title first: the id of an operator, and cells."""
        if self._profile is None:
            return []
        from opwright.commands import format_seconds
        from opwright_kit.profiling.report import format_bytes, format_places

        rows: list[tuple[str, tuple[str, ...]]] = [("", _TITLE)]
        for row in self._profile.rows:
            place = f"#{format_places(row.operators)}" if row.operators else ""
            rows.append(
                (
                    f"op-{row.block}-{row.operators[0]}" if row.operators else "",
                    (
                        str(row.step),
                        "  " * row.depth + row.op_type,
                        place if row.block == 0 else f"block {row.block} {place}",
                        f"{row.kernel} {row.package}".strip(),
                        f"{row.calls:g}",
                        format_seconds(row.median_s),
                        format_seconds(row.min_s),
                        f"{100 * row.share:.1f} %",
                        format_bytes(row.output_bytes),
                    ),
                )
            )
        return rows
