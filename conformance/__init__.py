"""The conformance suite: rules, the sessions that observe them, and the judgements over what was observed."""

__version__ = "0.1.0"

RULE_SET = "2026-11"
"""Name of the frozen rule set; every report carries it, so that results of two dates can be compared."""
