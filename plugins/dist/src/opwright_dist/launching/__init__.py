"""Launchers that start several processes on this machine."""

from __future__ import annotations

from opwright_dist.launching.launcher import Tool, launch

__all__ = ["Tool", "launch"]
