"""A pytest plugin, loaded only by name, that runs opwright's conformance kit as tests.

``pytest -p opwright_kit.pytest_plugin --opwright-check=PACKAGE``: each rule on each subject is a
test, ``opwright-acme::acme.swish[cpu, acme]::reference``. Other projects do not load this plugin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from opwright_kit.testing import IsolatedCheck, Result


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, and the corresponding settings of the configuration file."""
    group = parser.getgroup("opwright")
    text = "check this installed distribution by opwright's conformance kit; repeatable"
    group.addoption("--opwright-check", action="append", default=[], metavar="PACKAGE", help=text)
    group.addoption("--opwright-seed", type=int, default=0, metavar="N", help="seed of its samples")
    group.addoption(
        "--opwright-time-limit", type=float, metavar="SECONDS", help="for one sample of one rule"
    )
    parser.addini("opwright_check", text, type="args", default=[])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the tests of the named packages; ``-k`` and ``-m`` select among them, too."""
    distributions = [*config.getini("opwright_check"), *config.getoption("--opwright-check")]
    for distribution in dict.fromkeys(distributions):
        items.extend(CheckedPackage.from_parent(session, name=distribution).collect())


class CheckedPackage(pytest.Collector):
    """A distribution that is checked."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test for each rule on each subject."""
        from opwright.errors import OpwrightError
        from opwright_kit.testing import TIME_LIMIT_S, IsolatedCheck

        limit = self.config.getoption("--opwright-time-limit")
        seed = self.config.getoption("--opwright-seed")
        try:
            limit_s = TIME_LIMIT_S if limit is None else limit
            check = IsolatedCheck(self.name, time_limit_s=limit_s, seed=seed)
        except OpwrightError as error:
            raise pytest.UsageError(str(error)) from error
        self.config.add_cleanup(check.close)
        for subject, rule in check.planned:
            item: Any = RuleItem.from_parent(self, name=f"{subject}::{rule}")
            item.prepare(check, subject, rule)
            yield item


class RuleItem(pytest.Item):
    """One rule on one subject."""

    def prepare(self, check: IsolatedCheck, subject: str, rule: str) -> None:
        """Set the packages to check."""
        self._check = check
        self._subject = subject
        self._rule = rule

    def runtest(self) -> None:
        """Fail with the findings, or skip with the reason."""
        result: Result = self._check.apply(self._subject, self._rule)
        if result.state == "skipped":
            pytest.skip(result.reason)
        if result.findings:
            pytest.fail(self._check.card.format_findings(result.findings), pytrace=False)

    def reportinfo(self) -> tuple[str, int | None, str]:
        """Return the title of a failure; there is no file to show."""
        return self.nodeid, None, f"{self._rule} of {self._subject}"
