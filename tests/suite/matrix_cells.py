"""The matrix' cells of one seed, run once for every test module that reads them."""

from __future__ import annotations

from functools import lru_cache

from conformance.matrix import Cell, run_cell
from reference_gateway import FAULTS


@lru_cache(maxsize=1)
def all_cells() -> tuple[Cell, ...]:
    """The clean pair and every fault."""
    return tuple(run_cell(fault) for fault in (None, *FAULTS))
