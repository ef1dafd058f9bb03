"""Runs operators: networks, compiled callables, and eager calls of one operator."""
