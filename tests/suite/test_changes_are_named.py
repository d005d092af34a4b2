"""Over real HTTP, through faults: the report names the part, the field and the kind of what changed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from matrix_cells import cell

from conformance.judgements.requests_table import numbered
from conformance.report.wording import change_line
from conformance.verdicts import Entry, Status, Verdict


def verdict(fault: str, rule: str, entry: Entry = Entry.MESSAGES) -> Verdict:
    found = next(v for v in cell(fault).verdicts if (v.rule, v.entry) == (rule, entry))
    assert found.status in (Status.FAIL, Status.WARN), found.reason
    return found


@dataclass(frozen=True)
class Named:
    """What a change is called. `part` and `shown` need only be contained (in `before` or `after`)."""

    fault: str
    rule: str
    part: str
    kind: str
    field: str = ""
    shown: str = ""
    entry: Entry = Entry.MESSAGES


CHANGES = (
    Named("keep-billing-header", "PFX-02", "system[0]", "attribution block", "the value of `cch`"),
    Named("keep-billing-header", "PIN-01", "system[0]", "attribution block", "the value of `cch`"),
    Named("strip-hash-only", "PFX-03", "system[0]", "attribution block", "the value of `cc_version`"),
    Named("strip-blocks-only", "PFX-03", "system", "attribution block", "the value of `cch`"),
    Named("strip-whole-lines-only", "PFX-03", "system", "attribution block", "the value of `cch`"),
    Named("strip-with-hash-only", "PFX-03", "system[0]", "attribution block", "the value of `cc_version`"),
    Named("strip-known-keys-only", "PFX-03", "system[0]", "attribution block"),
    Named("shuffle-tools", "PFX-14", "tool ", "tools re-ordered"),
    Named("clock-in-system", "PFX-14", "message 0 (system)", "clock"),
    Named("hoist-system", "PFX-06", "message 3 (system)", "system message hoisted", shown="Note one"),
    Named("drop-later-system", "PFX-06", "message 3 (system)", "content dropped", shown="Note one"),
    Named("shuffle-tools", "PFX-09", "tool ", "tools re-ordered"),
    Named("shuffle-schema-keys", "PFX-09", "tool 0", "keys re-ordered"),
    Named("sort-tools", "CON-04", "tools", "tools sorted", shown="ask_owner, read_part, weigh_parts"),
    Named("sort-keys", "CON-04", "the schema of tool weigh_parts", "keys sorted"),
    Named("clock-in-system", "PFX-13", "message 0 (system)", "clock", shown="9999999999999999999"),
    Named("clock-in-system", "PFX-01", "message 0 (system)", "clock"),
    Named("random-call-ids", "PFX-11", "call of read_part", "tool-call id", "the value of `id`"),
    Named("numbers-through-doubles", "PFX-10", "call of read_part", "number re-spelled", "the value of `alpha`",
          shown="12345678901234567890"),
    Named("list-texts-end-lines", "PFX-07", "message 1 (user)", "string/list rendering"),
    Named("encode-list-results", "PFX-07", "(tool result)", "string/list rendering"),
    Named("thinking-of-last-answer", "PFX-15", "thinking of assistant message 2", "thinking removed",
          shown="Thought two"),
    Named("tool-inserted-late", "PFX-01", "tool 2", "tool inserted", shown="aaaaaaaa_aaaaaa"),
    Named("insert-found", "PFX-16", "tools", "tool inserted", shown="zoom_in, mail_reader, look_up_tools"),
    Named("text-before-results", "CON-02", "(user)", "content between calls and results", shown="After the results"),
    Named("collapse-blank-lines", "CON-01", "system[1]", "white space"),
    Named("drop-system", "CON-01", "system[", "content dropped"),
    Named("own-tool", "CON-01", "tool platform_search", "content added"),
    Named("strip-from-messages", "PFX-04", "message 0 (user)", "content dropped", shown="cch=05e4a"),
    Named("drop-headed-system", "PFX-04", "system", "content dropped", shown="keep to the facts"),
    Named("native-merge-system", "PFX-05", "system[0]", "system blocks merged"),
    Named("native-strip-billing", "PFX-05", "system[0]", "attribution block removed"),
    Named("marks-in-tools", "PFX-08", "tool 0", "mark in the prompt", "the value of `eager_input_streaming`"),
    Named("marks-in-text", "PFX-08", "(user)", "mark in the prompt"),
    Named("alias-parameters", "PFX-20", "upstream body", "alias treated as another model", entry=Entry.CHAT),
)  # fmt: skip


@pytest.mark.parametrize("named", CHANGES, ids=lambda named: f"{named.fault}-{named.rule}")
def test_part_field_and_kind(named: Named) -> None:
    found = verdict(named.fault, named.rule, named.entry)
    change = found.change
    assert change is not None
    assert named.part in change.part
    assert change.kind == named.kind
    if named.field:
        assert change.field == named.field
    assert named.shown in f"{change.before}\n{change.after}"
    assert change_line(change) in found.reason or found.rule in ("CON-01", "PFX-09", "PIN-01"), "the reason says it too"
    assert found.excerpts, "a failure shows the request that caused it"


def test_a_rotating_hash_to_the_character() -> None:
    """`x-anthropic-billing-header: cc_version=2.1.116.d8c; cc_entrypoint=claude-vscode; cch=` has 85 characters."""
    change = verdict("keep-billing-header", "PFX-02").change
    assert change is not None
    line = change_line(change)
    assert line == "system[0], the value of `cch` (characters 85-89 from 0): attribution block"


def test_a_changing_suffix_to_the_character() -> None:
    change = verdict("strip-with-hash-only", "PFX-03").change
    assert change is not None
    assert change.span == (47, 49)


def test_a_removed_quotation_is_shown_by_what_is_left_where_it_stood() -> None:
    """The same text stands elsewhere too, with other values: that is no changed value of this one."""
    change = verdict("strip-from-messages", "PFX-04").change
    assert change is not None
    assert change.after == "(nothing)"


def test_every_problem_of_a_history_is_named() -> None:
    found = verdict("encode-list-results", "CON-02")
    table = next(table for table in found.tables if table.title == "what became of the history")
    said = [row[0] for row in table.rows]
    assert len(set(said)) == 3, "results as JSON, a failure that looks like a success, an image as text"
    assert all(str(problem) in found.reason for problem in said)
    as_json = [(str(sent), str(arrived)) for _, _, sent, arrived in table.rows if str(sent).startswith("Result")]
    assert len(as_json) > 1, "more than one result arrives as JSON"
    for sent, arrived in as_json:
        assert " ".join(sent.split()[:2]) in arrived, "what was sent stands beside what became of that"


@pytest.mark.parametrize(
    ("rule", "title", "what"),
    [("PFX-09", "tool sections as they arrive", "section"), ("PFX-14", "upstream bodies", "body")],
)
def test_what_varies_is_numbered_by_first_appearance(rule: str, title: str, what: str) -> None:
    """A digest would be masked like any word nobody knows, and different ones would look alike."""
    table = next(table for table in verdict("shuffle-tools", rule).tables if table.title == title)
    names = [str(row[-1]) for row in table.rows]
    assert list(dict.fromkeys(names)) == [f"{what} {number}" for number in range(1, len(set(names)) + 1)]
    assert len(set(names)) > 1


def test_the_same_has_one_number_and_another_another() -> None:
    assert numbered("body", [b"x", b"y", b"x", b"z"]) == ["body 1", "body 2", "body 1", "body 3"]


@pytest.mark.parametrize("rule", ["PFX-09", "PFX-14"])
def test_what_a_restart_changes_is_said_once(rule: str) -> None:
    found = verdict("tools-by-start", rule)
    assert found.change is not None
    assert "-across-restart" in found.code
    assert found.reason.count(found.change.kind) == 1
    assert found.reason.endswith(change_line(found.change))


def test_tools_in_a_constant_wrong_order_are_not_a_varying_order() -> None:
    assert {v.status for v in cell("sort-tools").verdicts if v.rule == "PFX-09"} == {Status.PASS}


def test_what_survives_is_told_for_both_template_orders() -> None:
    kept = verdict("keep-billing-header", "PFX-02")
    table = next(table for table in kept.tables if table.title.startswith("what survives"))
    tools_first, system_first = table.rows
    assert (tools_first[0], system_first[0]) == ("tools first", "system text first")
    pairs = next(table for table in kept.tables if table.title.startswith("hot pairs"))
    pinned = {row[pairs.columns.index("cached (next)")] for row in pairs.rows}
    assert len(pinned) == 1, "the cell's engine renders tools first: what survives is what was read from cache"
    assert int(pinned.pop() or 0) == pytest.approx(int(tools_first[1] or 0), abs=64)
    assert int(system_first[1] or 0) < int(tools_first[1] or 0)
    assert any("because" in line for line in kept.ruled_out)


def test_a_clock_rules_out_the_client_and_the_tools() -> None:
    lines = " ".join(verdict("clock-in-system", "PFX-01").ruled_out)
    assert "the client, because its own requests" in lines
    assert "the tools, because all" in lines


@pytest.mark.parametrize("entry", Entry)
def test_a_clock_varies_within_a_conversation_whatever_form_its_messages_have(entry: Entry) -> None:
    """On the Messages entry the first message changes its form with the cache mark: it is one conversation still."""
    found = verdict("clock-in-system", "PFX-13", entry)
    assert "varies from request to request of one conversation" in found.reason
    assert any(table.title.startswith("what survives") for table in found.tables)


def test_the_first_difference_is_shown_and_foreign_text_is_masked() -> None:
    change = verdict("clock-in-system", "PFX-13").change
    assert change is not None
    assert "time of this request" not in f"{change.before}{change.after}"
