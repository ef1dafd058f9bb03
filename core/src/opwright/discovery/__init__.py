"""Discovery: from what is installed to filled registries, as a pipeline of pure functions.

``scan(paths) -> sources``, ``load(source) -> record``, ``merge(records) -> registries``. The index
stands between the first two, so that only the first process after an install imports hook modules.
"""

from opwright.discovery.discover import Discovery, Settings, discover, select_allowed
from opwright.discovery.load import load, load_all
from opwright.discovery.merge import Registries, make_registries, merge
from opwright.discovery.record import PluginRecord, package_of
from opwright.discovery.scan import Source, scan

__all__ = [
    "discover",
    "Discovery",
    "Settings",
    "select_allowed",
    "scan",
    "Source",
    "load",
    "load_all",
    "PluginRecord",
    "package_of",
    "merge",
    "Registries",
    "make_registries",
]
