"""What every judgement of scripted answers has in common: when there is nothing to judge, and who is to blame."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.judgements.requests_table import scripted_table
from conformance.judgements.verdict import Judging
from conformance.observe.observed import Observed
from conformance.observe.scripted import Played
from conformance.verdicts import Verdict


def unplayed(judging: Judging, played: Iterable[Played]) -> Verdict | None:
    """A verdict when no script reached its request, else None."""
    found = list(played)
    judging.rests_on(scripted_table(found))
    if any(p.reached for p in found):
        return None
    if not found:
        return judging.not_run("the upstream is asked in the Messages dialect, which cannot say any of these cases")
    errors = {p.exchange.error for p in found if p.exchange.error}
    why = f": {sorted(errors)[0]}" if errors else ""
    return judging.undecided(f"none of {len(found)} scripted requests came to the recorder{why}", len(found))


def witnessed(played: Played) -> bool:
    """True when the client got the scripted answer and no other: its word stands nowhere else."""
    return played.reached and played.word in played.exchange.text


def without_recorder(observed: Observed, judging: Judging) -> Verdict | None:
    """A verdict where no recorder can answer in the engine's place, else None."""
    return None if observed.scripted is not None else judging.not_run(observed.needs_recorder)
