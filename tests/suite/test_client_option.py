"""`--client NAME`: a right gateway is right whoever plays, and a fault is what that client has of it."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.matrix import Cell, run_cell
from conformance.option_values import PLAYED_CLIENTS
from conformance.options import Budget, RunOptions
from conformance.run import Run
from conformance.sessions import CLAUDE_CODE, CLIENTS, OPENCODE
from conformance.verdicts import Entry, Status

KEYLESS = ("reasonix-1.38.11", "qwen-code-0.15.10", "pi-0.73.1")
"""Chat clients that send no session key: AFF-02 has nothing to look at."""


def cell(client: str, fault: str | None = None, **options: Any) -> Cell:
    entry = Entry(CLIENTS[client].dialect)
    return run_cell(fault, clients=(client,), entries=(entry,), **options)


def without(cell: Cell, status: Status) -> set[str]:
    return {v.rule for v in cell.verdicts if v.status is status and not v.reason.startswith("no such entry")}


@pytest.mark.parametrize("client", PLAYED_CLIENTS)
def test_a_right_gateway_is_right_for_every_client(client: str) -> None:
    seen = cell(client)
    assert seen.broken == set(), client
    # PFX-19 compares two entries and here is one; everything else a client's requests can decide has to be decided.
    silent = {"PFX-19"} if CLIENTS[client].dialect == "messages" else set()
    silent |= {"PFX-02"} if client == "claude-code-2.0.77" else set()
    silent |= {"AFF-02"} if client in KEYLESS else set()
    assert without(seen, Status.NOT_APPLICABLE) == silent
    assert {v.rule for v in seen.verdicts if v.status is Status.INCONCLUSIVE} == set()
    assert without(seen, Status.PASS) >= {"CON-01", "PFX-01", "PIN-01", "PIN-03", "USE-07", "STR-04"}


@pytest.mark.parametrize(
    ("client", "breaks"),
    [
        ("claude-code-2.0.77", {"PFX-03"}),  # sends no block
        ("claude-code-2.1.50", {"PFX-03"}),  # sends one that never varies
        ("claude-code-2.1.332", {"PFX-03"}),  # likewise, without cch
        ("claude-code-2.1.116", {"PFX-02", "PFX-03", "PIN-01"}),
    ],
)
def test_a_forwarded_attribution_text_costs_those_whose_text_varies(client: str, breaks: set[str]) -> None:
    assert cell(client, "keep-billing-header").broken == breaks


@pytest.mark.parametrize("client", ["claude-code-2.1.332", "qwen-code-0.15.10", "pi-0.73.1"])
def test_shuffled_tools_are_seen_with_any_client_s_tools(client: str) -> None:
    assert cell(client, "shuffle-tools").broken == {"PFX-01", "PFX-09", "PFX-14"}


def test_counts_alone_accuse_nobody_where_the_client_sends_no_block() -> None:
    seen = cell("claude-code-2.0.77", recorder=False, budget=Budget.STANDARD)
    assert seen.broken == set()
    [verdict] = [v for v in seen.verdicts if v.rule == "PFX-02"]
    assert (verdict.status, verdict.reason) == (
        Status.NOT_APPLICABLE,
        "claude-code-2.0.77 sends no attribution block",
    )


def test_the_report_says_whose_sessions_were_played() -> None:
    run = Run(RunOptions(clients=("pi-0.73.1",), budget=Budget.QUICK))
    try:
        run.preflight()
        for entry in Entry:
            _ = run.observed(entry).qualification
        facts = {fact.name: fact.value for fact in run.report().facts}
    finally:
        run.close()
    assert facts["chat: sessions"] == "shaped like pi-0.73.1"
    assert facts["messages: sessions"] == f"shaped like {CLAUDE_CODE}"


def test_every_entry_has_a_client_by_default() -> None:
    assert [RunOptions().client_of(entry) for entry in Entry] == [CLAUDE_CODE, OPENCODE]
