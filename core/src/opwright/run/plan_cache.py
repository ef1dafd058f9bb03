"""A bounded cache of lowered plans: the least recently used one is dropped first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from opwright.lowering import LoweredPlan
from opwright.plugins import threads

MAX_PLANS = 64
"""Enough for every batch length of a data set that is padded to multiples of 8 or 16."""


class PlanCache:
    """Plans by everything that decides them; several threads may use it.

    A run keeps its plan until it ends, even if the cache drops it.
    """

    def __init__(self, max_plans: int = MAX_PLANS) -> None:
        self._plans: OrderedDict[Hashable, LoweredPlan] = OrderedDict()
        self._max = max_plans
        self._lock = threading.Lock()
        threads.watch(self)

    def threads_changed(self, forked: bool) -> None:
        """Drop everything in a forked child; else the keys contain the number of threads."""
        if forked:
            self._lock = threading.Lock()  # the thread that held the old one may be gone
            self._plans.clear()

    def find(self, key: Hashable) -> LoweredPlan | None:
        """Return the plan of `key`, or None."""
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
            return plan

    def add(self, key: Hashable, plan: LoweredPlan) -> LoweredPlan:
        """Keep `plan`, unless another thread was first: then return that thread's plan."""
        with self._lock:
            kept = self._plans.setdefault(key, plan)
            if len(self._plans) > self._max:
                self._plans.popitem(last=False)
            return kept

    def __len__(self) -> int:
        return len(self._plans)
