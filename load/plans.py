"""The plan of a run, whatever its shape."""

from __future__ import annotations

from load.options import LoadOptions
from load.plan import Plan
from load.replaying import replay_plan
from load.shapes import build


def plan_for(options: LoadOptions, pool_tokens: int | None) -> Plan:
    """The same plan in every process. Raises `LoadProblem`."""
    if options.shape == "replay":
        return replay_plan(options)
    return build(options.shape, options.pressure(pool_tokens))
