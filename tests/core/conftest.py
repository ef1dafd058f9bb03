"""Provides sites, which are folders with installed distributions, to all tests of the core."""

from __future__ import annotations

from sites import acme, libraries, site

__all__ = ["acme", "libraries", "site"]
