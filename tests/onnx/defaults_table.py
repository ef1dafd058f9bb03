"""Writes the attribute defaults in the ONNX schemas, so that models load without onnx.

``defaults_table.py`` writes the file; test_pages.py checks that it is current.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from onnx import AttributeProto, defs

from opwright_onnx.translate import defaults as table
from opwright_onnx.translate.node import read_attribute

TABLE = Path(table.__file__)

HEAD = '''"""Defaults of attributes by opset; tests/onnx/defaults_table.py writes it."""

# fmt: off
# ruff: noqa: E501

from __future__ import annotations

from typing import Any, Final

NEWEST: Final = {newest}

DEFAULTS: Final[dict[str, tuple[tuple[int, dict[str, Any]], ...]]] = {{
'''


def render() -> str:
    """Return the table: for each operator, its defaults from each opset that changed them."""
    found: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for schema in defs.get_all_schemas_with_history():
        if not schema.domain:
            defaults = {name: a.default_value for name, a in schema.attributes.items()}
            found[schema.name][schema.since_version] = {
                name: read_attribute(default, None)
                for name, default in sorted(defaults.items())
                if default.name and default.type != AttributeProto.UNDEFINED
            }
    found_changes = {}
    for name, versions in sorted(found.items()):
        changes: list[tuple[int, dict[str, Any]]] = []
        for since, defaults in sorted(versions.items()):
            if defaults != (changes[-1][1] if changes else {}):
                changes.append((since, defaults))
        if changes:
            found_changes[name] = changes
    lines = [f"    {name!r}: {tuple(changes)!r},\n" for name, changes in found_changes.items()]
    return HEAD.format(newest=defs.onnx_opset_version()) + "".join(lines) + "}\n"


if __name__ == "__main__":
    TABLE.write_text(render(), encoding="utf-8")
