"""The targets' descriptions, the table of what is expected of them, and the document made from both."""

from __future__ import annotations

from pathlib import Path

import pytest
from expected_verdicts import Expected, Key, cells, differences, failures_not_listed, load_expected
from gateway_spec import GATEWAYS, Place, TargetsError, load, names
from verdict_table import BEGIN, END, page, verdicts, write_documents

from conformance.rules import RULES
from conformance.verdicts import Status

DOCUMENT = Path(__file__).parents[2] / "docs" / "targets" / "README.md"
KEY: Key = ("CON-01", "messages")
GATEWAY = """
title = "X"
version = "1.0"
licence = "MIT"
install = { pip = "x==1.0" }
start = { command = ["x"] }
"""


def report(status: str = "pass", code: str | None = None, root: str | None = None) -> dict[str, object]:
    verdict = {"entry": "messages", "status": status, "code": code, "root": root, "reason": "so it is"}
    return {"rules": [{"id": "CON-01", "verdicts": [verdict]}]}


def expecting(value: object) -> dict[Key, Expected]:
    return {KEY: Expected.model_validate(value)}


FAIL = {"verdict": "fail", "code": "text-added", "because": "a note", "seen": "stub"}


def test_every_target_is_described_and_expected_something_of() -> None:
    assert set(load_expected()) == set(names())


@pytest.mark.parametrize("name", names())
def test_a_target_is_pinned_and_judged_on_all_its_entries_by_every_rule(name: str) -> None:
    gateway, expected = load(name), load_expected()[name]
    assert gateway.version in name
    wanted = {(rule.id, entry) for rule in RULES.values() for entry in rule.entries if entry in gateway.entries}
    assert set(expected) <= wanted
    assert {entry for _, entry in expected} == set(gateway.entries)


@pytest.mark.parametrize("name", names())
def test_a_target_stays_on_this_machine(name: str) -> None:
    text = (GATEWAYS / f"{name}.toml").read_text(encoding="utf-8")
    assert "://" not in text.replace("${upstream}", ""), "addresses come from the run, not from the file"
    assert "0.0.0.0" not in text  # noqa: S104 - looked for, not bound
    place = Place(Path("/home/x"), 4000, "http://127.0.0.1:9100")
    gateway = load(name)
    filled = [place.fill(t) for t in (*gateway.start.command, *gateway.start.files.values())]
    assert any("127.0.0.1:9100" in text for text in filled), "its engine is the recorder"
    assert "127.0.0.1" in " ".join(filled).replace("127.0.0.1:9100", ""), "where it listens"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ('install = { pip = "x" }', "pin the version"),
        ('install = { npm = "@scope/x" }', "pin the version"),
        ('install = { pip = "x==2.0" }', "is not version 1.0"),
        ('install = { pip = "x==1.0", npm = "x@1.0" }', "either pip or npm"),
        ("start = { command = [] }", "at least 1 item"),
        ('start = { command = ["x"], timeout = 3 }', "timeout"),
        ('entries = ["responses"]', "'messages' or 'chat'"),
    ],
)
def test_a_description_that_is_not_as_it_should_be_is_refused(change: str, says: str, tmp_path: Path) -> None:
    key = change.partition(" ")[0]
    kept = "\n".join(line for line in GATEWAY.splitlines() if not line.startswith(key))
    (tmp_path / "x-1.0.toml").write_text(f"{kept}\n{change}\n", encoding="utf-8")
    with pytest.raises(TargetsError, match=says):
        load("x-1.0", tmp_path)


def test_an_unknown_target_and_an_unknown_placeholder_say_what_there_is() -> None:
    with pytest.raises(TargetsError, match=r"no target 'litellm': choose from .*litellm-1\.108\.7"):
        load("litellm")
    with pytest.raises(TargetsError, match="placeholders are home, port, upstream, model"):
        Place(Path("/home/x"), 1, "").fill("${key}")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('CON-01 = { verdict = "fail" }', "give `because` and `seen`"),
        ('CON-01 = { verdict = "fail", because = "a note", seen = "hearsay" }', "'stub' or 'bytes'"),
        ('CON-01 = "passes"', "verdict"),
        ('CON-99 = "pass"', "there is no rule CON-99"),
    ],
)
def test_an_expectation_needs_a_rule_a_verdict_and_a_reason(line: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "expected.toml"
    path.write_text(f'["x-1.0".messages]\n{line}\n', encoding="utf-8")
    with pytest.raises(TargetsError, match=says):
        load_expected(path)


@pytest.mark.parametrize(
    ("expected", "seen", "says"),
    [
        ("pass", report(), None),
        (FAIL, report("fail", "text-added"), None),
        ({**FAIL, "code": None}, report("fail", "tool-added"), None),
        ("pass", report("fail", "text-added"), "expected pass, observed fail: so it is"),
        (FAIL, report("pass"), "expected fail, observed pass"),
        (FAIL, report("inconclusive"), "expected fail, observed inconclusive"),
        (FAIL, report("fail", "tool-added"), "expected code text-added, observed code tool-added"),
        (FAIL, report("fail", "text-added", "PFX-09"), "expected root None, observed root PFX-09"),
        ({**FAIL, "root": "PFX-09"}, report("fail", "text-added"), "expected root PFX-09, observed root None"),
        (FAIL, {"rules": []}, "expected fail, observed no verdict"),
    ],
)
def test_a_cell_that_differs_is_told(expected: object, seen: dict[str, object], says: str | None) -> None:
    found = [str(d) for d in differences(expecting(expected), seen)]
    assert len(found) == (says is not None)
    if says is not None:
        assert found[0].startswith(f"CON-01 messages: {says}")


def test_rules_that_are_not_listed_are_not_compared_but_an_accusation_is_shown() -> None:
    assert differences({}, report("fail")) == []
    assert failures_not_listed({}, report("fail")) == [KEY]
    assert failures_not_listed({}, report("inconclusive")) == []
    assert failures_not_listed(expecting(FAIL), report("fail")) == []


def test_the_document_says_what_is_expected() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    judged = text.partition(BEGIN)[2].partition(END)[0]
    expected = load_expected()
    gateways = [load(name) for name in expected]
    assert verdicts(gateways, expected) in judged


@pytest.mark.parametrize("name", names())
def test_a_targets_page_says_what_is_expected(name: str) -> None:
    assert (DOCUMENT.parent / f"{name}.md").read_text(encoding="utf-8") == page(load(name), load_expected()[name])


def test_the_tables_are_written_between_the_marks_and_nowhere_else(tmp_path: Path) -> None:
    document = tmp_path / "table.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    run = {"started": "2026-01-02T03:04:05+00:00", "requests_sent": 7, "seconds": 2.4}
    judged = {**report(), "run": run, "suite": {"rule_set": "set"}, "exit": {"code": 0}}
    write_documents(document, [(load("ant2oai-0.1.6"), judged)], {"ant2oai-0.1.6": expecting(FAIL)})
    text = document.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "| ant2oai 0.1.6 | MIT | 2026-01-02 | set | 0 | 7 | 2 s |" in text
    assert "| CON-01 | **fail** |" in text
    assert "old" not in text
    own = (tmp_path / "ant2oai-0.1.6.md").read_text(encoding="utf-8")
    assert "| CON-01 | M | **fail** | a note [stub] |" in own
    assert "1 verdicts; faults, consequences not counted: 1" in own
    document.write_text("no marks", encoding="utf-8")
    with pytest.raises(TargetsError, match="to write between"):
        write_documents(document, [], {})


def test_cells_of_a_report() -> None:
    assert cells(report("fail"))[KEY]["status"] == Status.FAIL
