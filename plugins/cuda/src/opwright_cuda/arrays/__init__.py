"""Exchanges GPU arrays with other libraries."""
