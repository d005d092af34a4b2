"""The report as text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from sample_report import green, mixed, run_report, verdict, with_baseline
from syrupy.assertion import SnapshotAssertion

from conformance.diagnosis.divergence import text_change
from conformance.masks import nobodys
from conformance.report import terminal
from conformance.rules import RULES
from conformance.verdicts import Change, Entry, ExitCode, Status, Vantage


@pytest.mark.parametrize("width", [80, 140])
def test_a_run_with_everything_in_it_reads_well(width: int, snapshot: SnapshotAssertion) -> None:
    assert terminal.summary(mixed(), ExitCode.SUITE, width=width, colour=False) == snapshot


def test_a_green_run_reads_well(snapshot: SnapshotAssertion) -> None:
    assert terminal.summary(green(), ExitCode.GREEN, width=80, colour=False) == snapshot


def test_known_failures_are_shown_as_such(snapshot: SnapshotAssertion) -> None:
    assert terminal.summary(with_baseline(), ExitCode.RED, width=100, colour=False) == snapshot


@pytest.mark.parametrize("width", [1, 60, 80, 100, 140, 1000])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    text = terminal.summary(mixed(), ExitCode.SUITE, width=width, colour=False)
    widest = max(cell_len(line) for line in text.splitlines())
    assert widest <= min(max(width, terminal.NARROWEST), terminal.WIDEST)


def test_every_rule_has_its_row_in_the_order_of_the_catalogue() -> None:
    text = terminal.summary(green(), ExitCode.GREEN, width=80, colour=False)
    assert re.findall(r"^([A-Z]{3}-\d\d|L2-\d\d) +pass ", text, re.MULTILINE) == list(RULES)


def test_without_colour_there_is_no_control_character_whatever_the_target_says() -> None:
    text = terminal.summary(with_baseline(), ExitCode.SUITE, width=100, colour=False)
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "[bold]not markup[/bold]" in text


def test_with_colour_only_our_own_control_sequences_are_written() -> None:
    text = terminal.summary(mixed(), ExitCode.SUITE, width=100, colour=True)
    assert "\x1b[" in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert all(character.isprintable() or character == "\n" for character in plain)
    assert r"\x1b[31mred" in plain


def test_a_problem_is_told_without_an_empty_table() -> None:
    text = terminal.summary(run_report((), problem="no answer"), ExitCode.TARGET, width=80, colour=False)
    assert "problem      no answer\nexit 10: the target cannot be judged" in text
    assert "green for" not in text


def test_a_long_change_is_cut_around_the_first_difference_and_marked() -> None:
    change = Change("system text", 5, "x" * 200 + "ONE" + "y" * 200, "x" * 200 + "TWO" + "y" * 200, "clock")
    failed = verdict("PFX-01", Entry.CHAT, Status.FAIL, "changed", change=change)
    lines = terminal.summary(run_report((failed,)), ExitCode.RED, width=80, colour=False).splitlines()
    [at] = [number for number, line in enumerate(lines) if line.strip() == "^"]
    assert lines[at - 2][lines[at].index("^") :].startswith("ONEy")
    assert lines[at - 1][lines[at].index("^") :].startswith("TWOy")


def test_a_change_that_masking_hides_is_marked_where_it_stands() -> None:
    change = text_change("system text", "It is 10:17 by\nour clock", "It is 10:18 by\nour clock", nobodys)
    assert change.before == "aa aa 99:99 aa\naaa aaaaa"
    failed = verdict("PFX-13", Entry.CHAT, Status.FAIL, "changed", change=change)
    lines = terminal.summary(run_report((failed,)), ExitCode.RED, width=80, colour=False).splitlines()
    [at] = [number for number, line in enumerate(lines) if line.strip() == "^"]
    assert lines[at - 2][lines[at].index("^") :].startswith(r"9 aa\naaa"), "the last digit of the minute"
    assert lines[at - 1][lines[at].index("^") :].startswith(r"9 aa\naaa")


def test_the_announcement_says_what_will_be_sent() -> None:
    text = " ".join(terminal.header(green(), width=80, colour=False).split())
    assert text.startswith("judging embedded pair, model llm-prime, on /v1/messages and /v1/chat/completions; ")
    assert "about 230 requests / 298,000 prompt tokens will be sent (standard), up to half as many again where" in text
    assert "load:" not in text
    loaded = " ".join(terminal.header(green(), load=True, width=80, colour=False).split())
    assert "load: comes on top, on each entry prompts of more than twice what L1 holds" in loaded
    alone = " ".join(terminal.header(replace(green(), vantages=(Vantage.CLIENT,)), width=80, colour=False).split())
    assert "(standard), up to three times as many where something is found and looked at a second time" in alone


def test_a_green_run_of_one_entry_without_a_recorder_says_what_it_says_nothing_of() -> None:
    one = [
        verdict("USE-06", Entry.CHAT, Status.PASS, "alike"),
        verdict("PFX-14", Entry.CHAT, Status.NOT_RUN, "needs a recorder"),
    ]
    report = replace(run_report(tuple(one)), entries=(Entry.CHAT,))
    text = " ".join(terminal.summary(report, ExitCode.GREEN, width=80, colour=False).split())
    assert (
        "exit 0: every MUST that was judged passed; nothing is said of /v1/messages; 1 of 2 rules were not run" in text
    )
    whole = " ".join(terminal.summary(green(), ExitCode.GREEN, width=80, colour=False).split())
    assert "exit 0: every MUST that was judged passed" in whole
    assert "nothing is said of" not in whole


def test_the_direct_arm_and_the_reasons_of_an_incomplete_run_are_told() -> None:
    report = replace(green(), engine_requests_sent=33, engine_prompt_tokens_sent=44_000, withheld=("2 of 9 failed",))
    text = terminal.summary(report, ExitCode.INCOMPLETE, width=120, colour=False)
    assert re.search(
        r"^past the target +44,000 prompt tokens in 33 requests straight to the engine$", text, re.MULTILINE
    )
    assert re.search(r"^incomplete +2 of 9 failed$", text, re.MULTILINE)
    assert "2 of 9 failed" not in terminal.summary(report, ExitCode.RED, width=120, colour=False)


@pytest.mark.parametrize(
    ("cell", "shown"),
    [(None, "-"), (17_920, "17,920"), (0.5, "0.5"), (1234.0, "1,234"), (0.12345, "0.123"), ("a\tb", "a\\tb")],
)
def test_cells(cell: str | int | float | None, shown: str) -> None:
    assert terminal.shown_cell(cell) == shown
