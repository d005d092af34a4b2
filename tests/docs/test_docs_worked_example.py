"""CONTRIBUTING's worked example is the code as it stands, and the matrix agrees with it."""

from __future__ import annotations

import pytest
from docs_text import ROOT, blocks

from conformance.matrix import run_cell
from conformance.rules import RULES
from reference_gateway import FAULTS

RULE, FAULT = "PIN-04", "cached-twice"
PLACES = (
    "conformance/rules.toml",
    "conformance/judgements/pinned.py",
    "conformance/cache_tests/test_pinned.py",
    "reference_gateway/faults/usage.py",
    "reference_gateway/faults/__init__.py",
    "tests/gateway/test_gateway_faults.py",
)


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("place", PLACES)
def test_a_block_of_the_example_is_the_code(place: str) -> None:
    shown = [*blocks("CONTRIBUTING.md", "toml"), *blocks("CONTRIBUTING.md", "python")]
    assert len(shown) == len(PLACES)
    wanted = lines(shown[PLACES.index(place)])
    if wanted[0] == "(":  # brackets that only make the block parse
        wanted = wanted[1:-1]
    code = lines((ROOT / place).read_text(encoding="utf-8"))
    assert any(code[at : at + len(wanted)] == wanted for at in range(len(code))), wanted[0]


def test_the_matrix_agrees_with_the_example() -> None:
    assert RULE in RULES
    assert run_cell(FAULT).broken == FAULTS[FAULT].breaks == {RULE, "USE-05"}
