"""Every exception the suite raises on purpose.

    PrefixproofError
    ├── UsageProblem       a wrong option or combination of options       -> pytest's usage error, exit 4
    ├── TargetProblem      unreachable, wrong protocol, key or model      -> exit 10
    ├── SuiteProblem       the suite itself (or its own pair) failed      -> exit 11
    │   └── RestartFailed  the restart that was asked for did not succeed -> the run ends
    ├── SendingStopped     the breaker or the token budget ended sending  -> verdicts become inconclusive
    └── VantageMissing     a rule needs what the user did not give        -> verdicts become not run

Messages are one line, say what to do, and never carry a key or a prompt.
"""


class PrefixproofError(Exception):
    """Base of all errors the suite raises on purpose."""


class UsageProblem(PrefixproofError):
    """An option, or a combination of options, makes no sense."""


class TargetProblem(PrefixproofError):
    """The target cannot be judged at all: unreachable, wrong protocol, wrong key or wrong model."""


class SuiteProblem(PrefixproofError):
    """The suite, its recorder or its embedded pair failed; says nothing about the target."""


class RestartFailed(SuiteProblem):
    """The target did not come back from the restart that was asked for, or the command for it failed."""


class VantageMissing(PrefixproofError):
    """An observation needs a vantage point that this run has not: the message says which option gives it."""


class SendingStopped(PrefixproofError):
    """No further request is sent: the target kept failing, or the token budget is used up."""
