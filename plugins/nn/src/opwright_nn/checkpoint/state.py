"""Data that a script saves besides the variables: a mapping among the notes, with a checksum."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from opwright.errors import AttributeValueError, FormatError

_STATE: Final = "opwright_nn.state"
_CHECKSUM: Final = "opwright_nn.state_crc32"


def pack_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state and its checksum as notes of `opwright.save`.

    Raises
    ------
    AttributeValueError
        JSON cannot write it.
    """
    try:
        return {_STATE: dict(state), _CHECKSUM: _checksum(state)}
    except (TypeError, ValueError, RecursionError) as error:
        raise AttributeValueError(
            f"checkpoint.save: state must be representable in JSON, got {error}; use numbers, "
            "strings and lists, with strings as keys"
        ) from None


def unpack_state(notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state among notes, or an empty dict if no state was saved.

    Raises
    ------
    FormatError
        Its checksum does not match.
    """
    state = notes.get(_STATE, {})
    if not isinstance(state, dict) or (state and notes.get(_CHECKSUM) != _checksum(state)):
        raise FormatError("generation.json: damaged, got a state that does not have its checksum")
    return state


def _checksum(state: Mapping[str, Any]) -> str:
    text = json.dumps(state, sort_keys=True, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x}"
