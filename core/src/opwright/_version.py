"""The version of every package in this repository; the other version files link to this one."""

__version__ = "0.1.0"
