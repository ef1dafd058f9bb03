"""A plugin whose annex breaks the rule of the package that uses it."""

import opwright.plugin as plugin

ROWS = {"good.pick": "nothing"}


@plugin.hookimpl
def opwright_annexes(registry):
    registry.add("table", "broken", "opwright_broken_annexes:ROWS")
