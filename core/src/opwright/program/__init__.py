"""Programs describe a computation as blocks of operators over named variables."""

from __future__ import annotations

from opwright.program.block import Block
from opwright.program.guards import (
    default_main_program,
    default_scope,
    default_startup_program,
    program_guard,
    scope_guard,
)
from opwright.program.operator import Operator
from opwright.program.program import Program, name_guard
from opwright.program.variable import Parameter, Variable

__all__ = [
    "Block",
    "Operator",
    "Parameter",
    "Program",
    "Variable",
    "default_main_program",
    "default_scope",
    "default_startup_program",
    "name_guard",
    "program_guard",
    "scope_guard",
]
