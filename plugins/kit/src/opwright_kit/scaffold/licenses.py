"""The possible licenses of a new package."""

from __future__ import annotations

from typing import Final

LICENSES: Final = {"Apache-2.0": "common/LICENSE-Apache-2.0.in", "MIT": "common/LICENSE-MIT.in"}
"""SPDX identifier, and the template of the text."""
