"""Why no exact repeat hits: upstream bytes tell an engine without a cache from a gateway that changes every prompt."""

from __future__ import annotations

import pytest
from suite_bad_targets import BAD
from suite_targets import judge

from conformance.evidence.qualify import NEVER_HIT, CacheState
from conformance.verdicts import Entry, ExitCode, Status


@pytest.mark.parametrize(
    ("name", "recorder", "state"),
    [
        ("engine without cache", True, CacheState.OFF),
        ("engine without cache", False, CacheState.NONE_SEEN),
        ("clock in first tool", True, CacheState.CHANGED),
        ("clock in first tool", False, CacheState.NONE_SEEN),
    ],
)
def test_the_state_is_said_and_is_never_green(name: str, recorder: bool, state: CacheState) -> None:
    judged = judge(BAD[name](), recorder=recorder, entries=(Entry.CHAT,))
    assert judged.report is not None
    assert {f.name: f.value for f in judged.report.facts}["chat: cache"] == state.value
    [pin] = [v for v in judged.verdicts if v.rule == "PIN-01" and v.entry is Entry.CHAT]
    assert pin.status is Status.INCONCLUSIVE
    assert "no cache seen" in pin.reason or "token budget is used up" in pin.reason
    assert judged.code in (ExitCode.RED, ExitCode.INCOMPLETE)


def test_every_state_without_hits_has_words_of_its_own() -> None:
    assert len({state.value for state in NEVER_HIT}) == len(NEVER_HIT) == 3
