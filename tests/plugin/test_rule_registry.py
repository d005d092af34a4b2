"""`rules.toml`: what the registry refuses."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from conformance.rules import RULES, read_rules

TEXT = (files("conformance") / "rules.toml").read_text(encoding="utf-8")


def test_every_rule_says_what_a_pass_rests_on_in_its_own_short_words() -> None:
    for rule in RULES.values():
        assert 20 <= len(rule.witness) <= 200, rule.id
        assert not rule.witness.endswith("."), rule.id
        assert rule.witness not in (rule.title, rule.statement)


@pytest.mark.parametrize("instead", ["", 'witness = ""\n', 'witness = " "\n'])
def test_a_rule_without_a_witness_is_refused(instead: str) -> None:
    head, rule, rest = TEXT.partition("[rules.PIN-04]\n")
    broken = head + rule + re.sub(r"witness = .*\n", instead, rest, count=1)
    assert broken != TEXT
    with pytest.raises(ValueError, match="PIN-04 names no witness"):
        read_rules(broken)


def test_a_rule_of_no_known_level_is_refused() -> None:
    with pytest.raises(ValueError, match="level 'MAY'"):
        read_rules(TEXT.replace('level = "SHOULD"', 'level = "MAY"', 1))
