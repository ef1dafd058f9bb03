"""Builds the graph of a plan: operators over names become operators over values."""
