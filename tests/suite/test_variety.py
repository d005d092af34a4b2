"""A seed varies the sessions in every way the matrix is meant to run over."""

from __future__ import annotations

import pytest

from conformance.matrix import run_cell, shape_of
from conformance.observe.variety import Variety, variety_of
from conformance.verdicts import Entry, Status

SEEDS = range(20)


def test_seed_0_is_plain() -> None:
    assert variety_of(0) == Variety()


@pytest.mark.parametrize("varied", ["tools", "kinds", "size", "growth"])
def test_twenty_seeds_vary_the_sessions(varied: str) -> None:
    assert len({getattr(variety_of(seed), varied) for seed in SEEDS}) >= 3


@pytest.mark.parametrize("varied", ["template", "block_size"])
def test_twenty_seeds_vary_the_engine(varied: str) -> None:
    assert len({shape_of(seed)[varied] for seed in SEEDS}) >= 2


def test_no_two_of_twenty_seeds_are_one_cell() -> None:
    assert len({(variety_of(seed), *shape_of(seed).values()) for seed in SEEDS}) >= 18


def test_every_form_has_text_and_calls() -> None:
    for seed in range(200):
        kinds = set(variety_of(seed).kinds)
        assert "text" in kinds
        assert kinds - {"text"}


def test_a_seeds_form_reaches_the_wire() -> None:
    sent = {run_cell(None, seed, rules=("PFX-01",)).prompt_tokens for seed in (1, 6, 7)}  # one template and block size
    assert len(sent) == 3


def test_nothing_fails_on_a_varied_pair() -> None:
    cell = run_cell(None, 4)
    assert [v for v in cell.verdicts if v.status in (Status.FAIL, Status.WARN, Status.INCONCLUSIVE)] == []


@pytest.mark.parametrize("seed", [0, 11])
def test_another_tenants_hits_show_at_any_granularity(seed: int) -> None:
    """Seed 11 counts in blocks of 128 tokens, where a prompt of 254 has one block to hit, as much as may be chance."""
    cell = run_cell("drop-cache-salt", seed, rules=("ISO-01",))
    assert [v.status for v in cell.verdicts if v.rule == "ISO-01" and v.entry is Entry.CHAT] == [Status.FAIL]
