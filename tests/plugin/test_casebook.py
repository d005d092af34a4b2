"""The casebook: which function judges which rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance import casebook
from conformance.rules import RULES


def make_case() -> Callable[..., None]:
    def case(observed: object, judge: casebook.Judge) -> None:
        raise NotImplementedError

    return case


def test_every_rule_has_its_case() -> None:
    assert set(casebook.load_cases()) == set(RULES)


def test_cases_run_in_the_order_of_the_catalogue_but_for_those_that_make_trouble() -> None:
    order = list(casebook.load_cases())
    late = list(casebook.TROUBLEMAKERS)
    assert order[-len(late) :] == late
    assert order[: -len(late)] == [rule for rule in RULES if rule not in late]


def test_a_case_is_kept_by_rule_and_stays_the_plain_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(casebook, "CASES", {})
    function = make_case()
    assert casebook.rule("PFX-02")(function) is function
    assert casebook.CASES["PFX-02"] == casebook.Case("PFX-02", function)
    [mark] = vars(function)["pytestmark"]
    assert (mark.name, mark.args) == ("rule", ("PFX-02",))


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ValueError, match=r"PFX-99 is not in rules\.toml"):
        casebook.rule("PFX-99")


def test_a_second_case_of_a_rule_is_refused_but_a_second_import_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(casebook, "CASES", {})
    casebook.rule("PFX-02")(make_case())
    casebook.rule("PFX-02")(make_case())  # the same lines again, as when a module is imported by two names

    def other(observed: object, judge: casebook.Judge) -> None:
        raise NotImplementedError

    with pytest.raises(ValueError, match="PFX-02 has two cases"):
        casebook.rule("PFX-02")(other)
