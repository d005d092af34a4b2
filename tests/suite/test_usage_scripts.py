"""The table of scripted usages: enough of them, each of its own class and with its authority, and all of them right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from conformance.observe.scripted import ScriptedUpstream
from conformance.observe.usage_case import ANY, UsageCase, allows, chat_fields, fits, is_count, messages_fields
from conformance.observe.usage_scripts import CASES_BY_NAME, NOT_WHEN_QUICK, USAGE_CASES
from conformance.options import Budget, RunOptions
from conformance.rules import RULES
from conformance.run import Run
from conformance.verdicts import Entry

NAMES = [case.name for case in USAGE_CASES]
AUTHORITIES = {authority.key for rule in RULES.values() for authority in rule.authority} | {"OU", "AS", "DK"}


def test_there_are_more_than_forty_classes_and_no_two_cases_share_one() -> None:
    assert len(USAGE_CASES) >= 40
    assert [klass for klass, n in Counter(case.klass for case in USAGE_CASES).items() if n > 1] == []
    assert len(CASES_BY_NAME) == len(USAGE_CASES)
    assert set(NAMES) >= NOT_WHEN_QUICK


@pytest.mark.parametrize("case", USAGE_CASES, ids=NAMES)
def test_a_case_names_its_rule_its_authority_and_its_reason(case: UsageCase) -> None:
    assert case.rule in RULES
    assert case.authority
    assert set(case.authority) <= AUTHORITIES
    assert case.why
    assert case.messages
    assert (case.at is None) == (case.form == "plain")
    assert case.control is None or case.control in CASES_BY_NAME


@pytest.mark.parametrize("case", [c for c in USAGE_CASES if c.rule != "STR-06"], ids=lambda c: c.name)
def test_no_reading_allows_nonsense(case: UsageCase) -> None:
    nonsense: list[dict[str, Any]] = [
        {"input": -1, "read": 900, "created": None, "output": 50},
        {"input": 100.0, "read": 900, "created": None, "output": 50},
        {"input": 100, "read": 900, "created": None, "output": None},
        {"input": "100", "read": 900, "created": None, "output": 50},
    ]
    assert [got for got in nonsense if fits(case.messages, got, tuple(got))] == []


@pytest.mark.parametrize(
    ("allowed", "got", "fitting"),
    [
        ((0,), 0, True), ((0,), None, False), ((None,), None, True), ((None,), 0, False), ((1,), True, False),
        ((1,), 1.0, False), ((ANY,), 10**30, True), ((ANY,), -1, False), ((ANY,), True, False), ((ANY,), None, False),
        ((ANY, None), None, True), ((50,), "50", False),
    ],
)  # fmt: skip
def test_what_an_allowed_value_is(allowed: Any, got: Any, fitting: bool) -> None:
    assert allows(allowed, got) is fitting


def test_counts_are_integers_from_zero_up() -> None:
    assert [v for v in (0, 1, -1, True, 1.0, "1", None) if is_count(v)] == [0, 1]


@pytest.fixture(scope="module")
def clean() -> Iterator[Run]:
    run = Run(RunOptions(budget=Budget.STANDARD))
    try:
        run.preflight()
        yield run
    finally:
        run.close()


@pytest.mark.parametrize("entry", list(Entry))
@pytest.mark.parametrize("case", USAGE_CASES, ids=NAMES)
def test_the_reference_gateway_gives_an_honest_answer_in_every_field(clean: Run, case: UsageCase, entry: Entry) -> None:
    scripted = clean.observed(entry).scripted
    assert isinstance(scripted, ScriptedUpstream)
    readings = case.messages if entry is Entry.MESSAGES else case.chat
    if not readings:
        assert entry is Entry.CHAT
        return
    played = scripted.usage(case)
    exchange = played.exchange
    assert exchange.ok, exchange.error
    assert played.word in exchange.text
    assert [record.script for record in played.records] == [case.name]
    got = messages_fields(exchange.usage) if entry is Entry.MESSAGES else chat_fields(exchange.usage)
    assert fits(readings, got, tuple(got)), got
