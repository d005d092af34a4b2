"""`report.json` and its description."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sample_report import green, mixed, run_report, verdict, with_baseline

from conformance.report import as_json
from conformance.rules import RULES
from conformance.verdicts import Entry, ExitCode, Status, Table

DESCRIPTION = (Path(__file__).parents[2] / "docs" / "report-json.md").read_text(encoding="utf-8")


def field_names(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {name for item in value.values() for name in field_names(item)}
    if isinstance(value, list):
        return {name for item in value for name in field_names(item)}
    return set()


def test_it_says_what_the_run_said() -> None:
    data = json.loads(as_json.render(mixed(), ExitCode.RED))
    assert data["schema"] == "prefixproof-report/1"
    assert data["exit"]["code"] == 1
    assert data["exit"]["name"] == "red"
    assert data["problem"] is None
    assert data["summary"]["fail"] == 2
    assert sum(data["summary"].values()) == len(RULES)
    assert [rule["id"] for rule in data["rules"]] == list(RULES)
    pinned = next(rule for rule in data["rules"] if rule["id"] == "PIN-01")
    assert (pinned["status"], pinned["root"], pinned["requests"]) == ("fail", "PFX-02", 48)
    on_messages = pinned["verdicts"][0]
    assert (on_messages["code"], on_messages["vantage"]) == ("pinned", "client")
    assert on_messages["tables"][0]["rows"][0][3] == 17_920
    attribution = next(rule for rule in data["rules"] if rule["id"] == "PFX-02")["verdicts"][0]
    assert attribution["change"]["kind"] == "attribution block"
    assert attribution["excerpts"] == "details/PFX-02-messages.txt"
    own = next(rule for rule in data["rules"] if rule["id"] == "CON-01")
    assert own["authority"] == [{"name": "prefixproof's own invariant", "link": None}]


def test_a_baseline_is_told_entry_by_entry() -> None:
    data = json.loads(as_json.render(with_baseline(), ExitCode.RED))
    told = data["baseline"]
    assert [(e["rule"], e["entry"], e["code"]) for e in told["seen"]] == [
        ("PFX-02", "messages", "attribution-kept"),
        ("PFX-09", "chat", "order"),
    ]
    assert [(e["rule"], e["seen"]) for e in told["stale"]] == [("USE-06", "it passes")]
    assert [e["rule"] for e in told["unchecked"]] == ["PFX-14"]
    known = {(rule["id"], v["entry"]) for rule in data["rules"] for v in rule["verdicts"] if v["known"] is not None}
    assert known == {("PFX-02", "messages"), ("PFX-09", "chat")}
    assert data["summary"]["fail"] == 2, "a known failure is still one"
    assert json.loads(as_json.render(mixed(), ExitCode.RED))["baseline"] is None


def test_every_field_and_every_status_is_described() -> None:
    data = as_json.document(with_baseline(), ExitCode.RED)
    data.pop("summary")  # its names are statuses, described as such
    for name in field_names(json.loads(json.dumps(data))):
        assert re.search(rf"[`.{{ ]{name}[`.,}}]", DESCRIPTION), name
    for status in Status:
        assert f"| `{status.value}` |" in DESCRIPTION
    assert f"`{as_json.SCHEMA}`" in DESCRIPTION


def test_what_json_cannot_hold_is_still_written_as_json() -> None:
    odd = verdict(
        "USE-01",
        Entry.MESSAGES,
        Status.FAIL,
        "lone \ud800 surrogate",
        tables=(Table("odd", ("n",), ((float("nan"),), (float("inf"),), (1,))),),
    )
    data = json.loads(as_json.render(run_report((odd,)), ExitCode.RED))
    told = data["rules"][0]["verdicts"][0]
    assert told["reason"] == "lone \ud800 surrogate"
    assert told["tables"][0]["rows"] == [[None], [None], [1]]


def test_a_run_that_judged_nothing_has_its_problem() -> None:
    data = json.loads(as_json.render(run_report((), problem="no answer"), ExitCode.TARGET))
    assert (data["problem"], data["exit"]["code"], data["rules"]) == ("no answer", 10, [])


def test_the_same_run_gives_the_same_bytes() -> None:
    assert as_json.render(green(), ExitCode.GREEN) == as_json.render(green(), ExitCode.GREEN)
