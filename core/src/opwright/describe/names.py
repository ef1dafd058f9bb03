"""Valid operator types."""

from __future__ import annotations

import keyword
import re
from typing import Final

from opwright.errors import RegistrationError

_OP_TYPE: Final = re.compile(r"([a-z][a-z0-9_]*\.)?[a-z][a-z0-9_]*")


def check_op_type(op_type: str) -> None:
    """Raise RegistrationError unless a type is ``lower_snake``, with an optional prefix and dot."""
    if not _OP_TYPE.fullmatch(str(op_type)):
        raise RegistrationError(
            f"{op_type}: an operator type must be lower_snake, optionally with a prefix and "
            f"a dot, got {op_type!r}; write it like 'acme.rms_norm'"
        )
    for part in op_type.split("."):
        if keyword.iskeyword(part):
            raise RegistrationError(
                f"{op_type}: an operator type must not be a Python keyword, got {part!r}"
            )
