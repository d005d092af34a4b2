"""A run whose target cannot be reached still has a report and an exit code: one line, exit 10."""

from __future__ import annotations

import pytest

from conformance.errors import TargetProblem
from conformance.options import RunOptions
from conformance.run import Run


def test_a_run_that_never_started_still_reports() -> None:
    run = Run(RunOptions(target="http://127.0.0.1:9", model="x"))
    try:
        with pytest.raises(TargetProblem, match="connection refused"):
            run.preflight()
        assert run.report().verdicts == ()
        assert run.report().requests_sent == 0
    finally:
        run.close()
