"""Packages of plugins: identity, requirements, registrations as plain data, and failures."""
