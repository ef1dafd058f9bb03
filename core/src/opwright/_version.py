"""The version of every package of this repository; the others are links to this file."""

__version__ = "0.1.0"
