"""Launchers: processes of this machine that begin, print and end together."""

from __future__ import annotations

from opwright_dist.launching.launcher import Tool, launch

__all__ = ["Tool", "launch"]
