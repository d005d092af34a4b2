"""The cases: which function judges which rule.

A case is a plain function of what was observed, so that the fault matrix can call it without pytest:

    @rule("PFX-02")
    def test_attribution_block_stays_out(observed: Observed, judge: Judge) -> None:
        judge(attribution.judge_block(observed))

Under pytest the plugin calls it once for each entry the rule is judged on. A case calls `judge` exactly once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

import pytest

from conformance.rules import ACROSS_RESTART, RULES
from conformance.verdicts import Verdict

Judge = Callable[[Verdict], None]
CaseFunction = TypeVar("CaseFunction", bound=Callable[..., None])

CASE_PACKAGES = ("conformance.cache_tests", "conformance.usage_tests")


@dataclass(frozen=True, slots=True)
class Case:
    """One rule's case. `function` takes `observed` and `judge` by keyword."""

    rule: str
    function: Callable[..., None]


TROUBLEMAKERS = ("ERR-02", "STR-07", "STR-09", "ERR-01")
"""Rules whose scripted failures may make a gateway give up on its channel: they run last, the gentlest first."""


def running_order(rule_id: str, *, restarts: bool = False) -> tuple[int, int]:
    """A sort key: rules run in the order of the catalogue, but for those that make trouble.

    `restarts`: the target is restarted, last of all, by the rules that compare across that.
    """
    later = (*TROUBLEMAKERS, *(ACROSS_RESTART if restarts else ()))
    return later.index(rule_id) + 1 if rule_id in later else 0, list(RULES).index(rule_id)


CASES: dict[str, Case] = {}
"""Rule id -> case, filled as the modules of cases are imported; `load_cases` imports them all."""


def rule(rule_id: str) -> Callable[[CaseFunction], CaseFunction]:
    """Make a function the case of a rule.

    Raises ValueError for an id the registry does not know, and for a second case of the same rule.
    """
    if rule_id not in RULES:
        raise ValueError(f"{rule_id} is not in rules.toml")

    def register(function: CaseFunction) -> CaseFunction:
        known = CASES.get(rule_id)
        if known is not None and _place(known.function) != _place(function):
            raise ValueError(f"{rule_id} has two cases: {_place(known.function)} and {_place(function)}")
        CASES[rule_id] = Case(rule_id, function)
        pytest.mark.rule(rule_id)(function)  # a mark is kept on the function itself
        return function

    return register


def load_cases(*, restarts: bool = False) -> dict[str, Case]:
    """Import every module of cases and return `CASES`, in the order they run; `restarts` as for `running_order`."""
    for package_name in CASE_PACKAGES:
        package = import_module(package_name)
        for module in iter_modules(package.__path__):
            import_module(f"{package_name}.{module.name}")
    order = sorted(RULES, key=lambda rule_id: running_order(rule_id, restarts=restarts))
    return {rule_id: CASES[rule_id] for rule_id in order if rule_id in CASES}


def _place(function: Callable[..., None]) -> tuple[str, str]:
    """Where a function is written: the same for two imports of one file."""
    code = function.__code__
    return code.co_filename, function.__qualname__
