"""`junit.xml`, ours and the one pytest writes."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from sample_report import HOSTILE, green, mixed, run_report, with_baseline

from conformance.report import as_junit
from conformance.rules import RULES


def properties(case: ET.Element) -> dict[str, str]:
    return {p.attrib["name"]: p.attrib["value"] for p in case.findall("properties/property")}


def parsed(data: bytes) -> ET.Element:
    return ET.fromstring(data)  # noqa: S314 - the document is our own


def cases(data: bytes) -> dict[str, ET.Element]:
    return {case.attrib["name"]: case for case in parsed(data).iter("testcase")}


def test_one_case_for_each_rule_and_entry_with_its_properties() -> None:
    found = cases(as_junit.render(mixed()))
    assert list(found) == [f"{rule.id}[{entry}]" for rule in RULES.values() for entry in rule.entries]
    assert properties(found["PIN-01[messages]"]) == {
        "rule": "PIN-01",
        "level": "MUST",
        "family": "cache",
        "entry": "messages",
        "status": "fail",
        "vantage": "client",
        "requests": "24",
        "code": "pinned",
        "root": "PFX-02",
    }


def test_verdicts_become_junits_outcomes() -> None:
    found = cases(as_junit.render(mixed()))
    outcome = {name: [child.tag for child in case if child.tag != "properties"] for name, case in found.items()}
    assert outcome["CON-01[messages]"] == []
    assert outcome["PFX-02[messages]"] == ["failure"]
    assert outcome["PFX-09[chat]"] == ["system-out"]
    assert outcome["PFX-14[chat]"] == ["skipped"]
    assert outcome["STR-02[messages]"] == ["error"]


def test_counts_add_up() -> None:
    suite = next(parsed(as_junit.render(mixed())).iter("testsuite"))
    assert suite.attrib["tests"] == str(sum(len(rule.entries) for rule in RULES.values()))
    assert (suite.attrib["failures"], suite.attrib["errors"], suite.attrib["skipped"]) == ("2", "1", "4")


def test_a_known_failure_is_skipped_with_its_reason_and_a_stale_entry_fails() -> None:
    data = as_junit.render(with_baseline())
    found = cases(data)
    known = found["PFX-02[messages]"]
    assert [child.tag for child in known] == ["properties", "skipped", "system-out"]
    assert properties(known)["status"] == "fail"
    assert properties(known)["known"].startswith("ticket 7")
    assert known.find("skipped").attrib["message"].startswith("known fail: ticket 7")  # type: ignore[union-attr]
    assert [child.tag for child in found["PIN-01[messages]"] if child.tag != "properties"] == ["failure"]
    [stale] = found["baseline"].findall("failure")
    assert "USE-06 on chat: STALE: it passes" in (stale.text or "")
    suite = next(parsed(data).iter("testsuite"))
    assert suite.attrib["tests"] == str(len(found))
    assert (suite.attrib["failures"], suite.attrib["errors"], suite.attrib["skipped"]) == ("2", "1", "6")


def test_hostile_text_stays_text() -> None:
    assert b"\x1b" not in as_junit.render(mixed())
    text = cases(as_junit.render(mixed()))["PFX-09[chat]"].findtext("system-out")
    assert text is not None
    assert HOSTILE.replace("\x1b", "\\x1b") in text


def test_a_problem_is_an_error_of_the_run() -> None:
    found = cases(as_junit.render(run_report((), problem="no answer")))
    [error] = found["run"].findall("error")
    assert error.attrib["message"] == "no answer"


def test_a_green_run_has_nothing_but_properties() -> None:
    assert {child.tag for case in cases(as_junit.render(green())).values() for child in case} == {"properties"}
