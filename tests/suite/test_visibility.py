"""docs/visibility.md: it names every fault, and what it says is what is declared and measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformance import visibility
from conformance.matrix import declared
from reference_gateway import FAULTS

PAGE = (Path(__file__).parents[2] / "docs" / "visibility.md").read_text(encoding="utf-8")
ROWS = {
    fault: (client, recorder, engine)
    for fault, client, recorder, engine in re.findall(
        r"^\| `([^`]+)` \| (.*?) \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE
    )
}


def test_every_fault_has_its_row() -> None:
    assert list(ROWS) == list(FAULTS), "write the page anew: make visibility"


@pytest.mark.parametrize("fault", list(FAULTS))
def test_the_recorder_s_column_is_what_is_declared(fault: str) -> None:
    if fault in ROWS:
        assert set(ROWS[fault][1].split(", ")) == declared(FAULTS[fault], "tools-first")


def test_what_the_client_alone_accuses_the_recorder_confirms() -> None:
    """But for CNT-01: a count that is right differs from a total that is wrong. A recorder knows the true total."""
    for client, recorder, _ in ROWS.values():
        seen = set() if client in ("-", "withheld", "refused") else set(client.split(", "))
        confirmed = set(recorder.split(", "))
        assert seen <= confirmed | ({"CNT-01"} if confirmed & {"USE-01", "USE-06"} else set()), client


def test_the_sums_below_the_table_are_the_table_s() -> None:
    refused = sum(row[0] == "refused" for row in ROWS.values())
    rules = sum(row[0] not in ("-", "withheld", "refused") for row in ROWS.values())
    engine = sum(row[2].endswith(", seen") for row in ROWS.values())
    said = (
        f"{rules + refused} of {len(ROWS)} faults show to the client alone ({rules} by rules that fail, {refused} by "
        f"requests that are refused), {len(ROWS)} to a recorder, {engine} in the engine's"
    )
    assert said in " ".join(PAGE.split())


@pytest.mark.parametrize(
    "fault", ["keep-billing-header", "random-user", "start-estimate", "chat-usage-rewritten", "pass-through-body"]
)
def test_a_row_is_what_is_measured(fault: str) -> None:
    clean = visibility.Seen("clean", (), (), visibility.hit_rate(None))
    row = visibility.page(clean, [visibility.look(fault)]).partition("|---|---|---|---|\n")[2].partition("\n")[0]
    assert row in PAGE
