"""Sites, folders with installed distributions, for all tests of core."""

from __future__ import annotations

from sites import acme, libraries, site

__all__ = ["acme", "libraries", "site"]
