"""Packages of plugins, with their identity, requirements, registrations as data, and failures."""

from opwright.packages.package import Package
from opwright.packages.quarantine import PluginFailure, PluginReport
from opwright.packages.registrations import (
    ANY,
    PHASES,
    AnnexRegistration,
    DeviceRegistration,
    KernelKey,
    KernelRegistration,
    OpRegistration,
    OptionRegistration,
    PassRegistration,
    fits_dtype,
)

__all__ = [
    "Package",
    "PluginFailure",
    "PluginReport",
    "OpRegistration",
    "KernelRegistration",
    "KernelKey",
    "DeviceRegistration",
    "PassRegistration",
    "OptionRegistration",
    "AnnexRegistration",
    "ANY",
    "PHASES",
    "fits_dtype",
]
