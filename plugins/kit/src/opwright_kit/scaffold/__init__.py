"""Writes packages that provide an operator, a kernel or a device, for ``opwright new``."""

from opwright_kit.scaffold.layout import (
    CHOICES,
    DEVICE,
    KERNEL,
    OPERATOR,
    Package,
    plan_package,
)
from opwright_kit.scaffold.licenses import LICENSES
from opwright_kit.scaffold.naming import PackageNames, check_names
from opwright_kit.scaffold.writing import check_folder, write_package

__all__ = [
    "CHOICES",
    "DEVICE",
    "KERNEL",
    "LICENSES",
    "OPERATOR",
    "Package",
    "PackageNames",
    "check_folder",
    "check_names",
    "plan_package",
    "write_package",
]
