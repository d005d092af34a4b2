"""The matrix' cells of one seed, run once for every test of a process that reads them."""

from __future__ import annotations

from functools import cache

from conformance.matrix import Cell, run_cell
from reference_gateway import FAULTS


@cache
def cell(fault: str | None) -> Cell:
    """The clean pair (None), or the pair with one fault."""
    return run_cell(fault)


def all_cells() -> tuple[Cell, ...]:
    """The clean pair and every fault."""
    return tuple(cell(fault) for fault in (None, *FAULTS))
