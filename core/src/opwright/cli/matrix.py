"""A matrix of kernels: rows of operators and devices, columns of dtypes, a letter per library."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from opwright.plugins.tables import align
from opwright.registry import ANY, KernelRegistration, Package
from opwright.registry.refusals import WOULD_REFUSE

_WIDTH: Final = 100
_NONE: Final = "."
_SHOWN_LIBRARIES: Final = 3
"""The most in one cell; a plus stands for more."""

_SHORT: Final = {"bfloat": "bf", "float": "f", "uint": "u", "int": "i"}


class _Kernel(Protocol):
    @property
    def registration(self) -> KernelRegistration: ...
    @property
    def package(self) -> Package: ...
    @property
    def refusal(self) -> str: ...


class Matrix:
    """A matrix of kernels as lines of text.

    A kernel for any dtype is in every column, one for any device in every row. Rows are `types`
    with each of `devices`, columns are `dtypes`. Each kernel has a ``registration``, a ``package``
    and a ``refusal``, empty for none.
    """

    def __init__(
        self,
        kernels: Sequence[_Kernel],
        types: Sequence[str],
        devices: Sequence[str],
        dtypes: Sequence[str],
    ) -> None:
        self._kernels = kernels
        self._types = types
        self._devices = devices
        self._dtypes = dtypes
        self._letters = _choose_letters({kernel.registration.library for kernel in kernels})
        self._of: dict[str, list[KernelRegistration]] = {}
        for kernel in kernels:
            self._of.setdefault(kernel.registration.op_type, []).append(kernel.registration)

    def lines(self) -> list[str]:
        """Return the title, the rows, and the legend of the letters."""
        if not self._kernels:
            return ["no kernel fits"]
        rows = [("operator", "device", *map(shorten_dtype, self._dtypes))]
        for op_type in self._types:
            for device in self._devices:
                cells = [self._cell(op_type, device, dtype) for dtype in self._dtypes]
                rows.append((op_type, device, *cells))
        return [*_fit(rows), "", *self._legend()]

    def _cell(self, op_type: str, device: str, dtype: str) -> str:
        """Return the letters of the libraries in the order of `KernelRegistry.candidates`."""
        ranked = sorted(
            (-r.priority, r.device == ANY, dtype not in r.dtypes, r.library)
            for r in self._of.get(op_type, ())
            if r.device in {device, ANY} and {dtype, ANY}.intersection(r.dtypes)
        )
        letters = [self._letters[library] for *_, library in ranked]
        more = "+" if len(letters) > _SHOWN_LIBRARIES else ""
        return "".join(letters[:_SHOWN_LIBRARIES]) + more or _NONE

    def _legend(self) -> list[str]:
        libraries: dict[str, set[str]] = {}
        for kernel in self._kernels:
            libraries.setdefault(kernel.registration.library, set()).add(kernel.package.label)
        rows = [
            (self._letters[library], library, ", ".join(sorted(labels)), self._foresee(library))
            for library, labels in sorted(libraries.items())
        ]
        lines = align(rows, indent="")
        shown = {*self._dtypes, ANY}
        count = sum(len(shown.intersection(k.registration.dtypes)) for k in self._kernels)
        lines.append(
            f"{count} kernels of {len(self._types)} operators; the first letter is tried first"
        )
        lines.append("to see why one is chosen: opwright explain NAME")
        return lines

    def _foresee(self, library: str) -> str:
        """Return why a library's kernels would refuse, and whether all of them would."""
        reasons = [k.refusal for k in self._kernels if k.registration.library == library]
        begin = WOULD_REFUSE if all(reasons) else f"some {WOULD_REFUSE}"
        return "; ".join(begin + reason for reason in dict.fromkeys(filter(None, reasons)))


def shorten_dtype(dtype: str) -> str:
    """Return ``f32`` for float32, ``bf16``, ``i8``, ``u64``; others unchanged."""
    for name, short in _SHORT.items():
        if dtype.startswith(name):
            return short + dtype.removeprefix(name)
    return dtype


def _choose_letters(libraries: Iterable[str]) -> dict[str, str]:
    """Give each library a letter of its own, of its name where one is free.

    Where there are more libraries than letters, the rest get numbers in brackets.
    """
    letters: dict[str, str] = {}
    spare = string.ascii_uppercase + string.ascii_lowercase + string.digits
    for number, library in enumerate(sorted(libraries), start=1):
        free = [c for c in (*library.upper(), *library, *spare) if c not in letters.values()]
        letters[library] = next((c for c in free if c in spare), f"({number})")
    return letters


def _fit(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the rows; a name that leaves the cells no room gets a line of its own."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = _WIDTH - sum(widths[1:]) - len(widths) + 1
    width = min(max(room, len("operator")), widths[0])
    lines = []
    for op_type, *cells in rows:
        line = " ".join(cell.ljust(w) for cell, w in zip(cells, widths[1:], strict=True))
        if len(op_type) > width:
            lines.append(op_type)
        name = op_type if len(op_type) <= width else ""
        lines.append(f"{name.ljust(width)} {line}".rstrip())
    return lines
