"""Every exception and exit code of the load generator."""

from __future__ import annotations

from enum import IntEnum


class LoadExit(IntEnum):
    """What the command says to a CI job."""

    GREEN = 0
    """The plan was played to its end, no request failed, and the gate, if any, held."""
    FAILED = 1
    """The gate did not hold, or requests failed where no gate says how many may."""
    USAGE = 2
    """A wrong option or file; nothing was sent."""
    TARGET = 10
    """The target could not be reached, or stopped answering."""
    INCOMPLETE = 12
    """A bound on time, requests or tokens ended the run before its plan was played."""


class LoadProblem(Exception):
    """The run cannot start or go on; one line that says what to do. Never carries a key or a prompt."""

    code = LoadExit.USAGE


class TargetGone(LoadProblem):
    """The target, or a process of the embedded pair, is not there."""

    code = LoadExit.TARGET
