"""Fixtures of the tests of the kit's commands: sites, folders with installed distributions."""

from __future__ import annotations

from sites import acme, libraries, site

__all__ = ["acme", "libraries", "site"]
