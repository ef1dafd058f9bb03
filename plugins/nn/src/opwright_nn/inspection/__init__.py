"""Inspection of networks: the cost of layers, and the first non-finite value."""

from __future__ import annotations

from opwright_nn.inspection.nan_search import NonFinite, find_nan
from opwright_nn.inspection.plot import plot
from opwright_nn.inspection.summary import LayerSummary, Summary, summary

__all__ = ["LayerSummary", "NonFinite", "Summary", "find_nan", "plot", "summary"]
