"""Passes over collectives."""
