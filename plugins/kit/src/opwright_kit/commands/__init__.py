"""The commands that the kit adds to ``opwright``, each a module of this package."""

from __future__ import annotations

from typing import Final

from opwright.commands import Command

BENCH: Final = Command(
    "time every kernel of an operator in turn, and compare what they compute",
    "opwright_kit.commands.bench",
)
CHECK: Final = Command(
    "check every operator and kernel of an installed package by rules",
    "opwright_kit.commands.check",
)
GRAPH: Final = Command(
    "draw a saved program as a page for a browser, with kernels and times",
    "opwright_kit.commands.graph",
)
LOCK: Final = Command(
    "write which kernel of which package computes each operator",
    "opwright_kit.commands.lock",
)
NEW: Final = Command(
    "write a package that provides an operator, a kernel or a device",
    "opwright_kit.commands.new",
)
RUN: Final = Command(
    "compute a saved program, or a file such as model.onnx, for arrays of files",
    "opwright_kit.commands.run",
)
STUBS: Final = Command(
    "write the installed operators as a .pyi, for type checkers and editors",
    "opwright_kit.commands.stubs",
)
OPS_PAGE: Final = Command("show one operator as a page", "opwright_kit.commands.page")
