"""Fixtures for the command tests: sites, which are folders with installed packages."""

from __future__ import annotations

from sites import acme, libraries, site

__all__ = ["acme", "libraries", "site"]
