"""Runs one kernel on one sample, in memory that is guarded and poisoned."""
