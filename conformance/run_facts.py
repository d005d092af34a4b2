"""The lines of a report that a reader needs to trust a run: what was found out on the way to its verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from conformance.observe.observed import Observed
from conformance.preflight import Preflight
from conformance.recorder import Recorder
from conformance.traffic import Traffic
from conformance.traffic import facts as traffic_facts
from conformance.verdicts import Entry, Fact
from conformance.wires import Wires


def run_facts(
    checked: Preflight,
    observed: Mapping[Entry, Observed],
    traffics: Iterable[Traffic],
    wires: Wires,
    *,
    sees: Callable[[Entry], bool],
    pool: Fact | None,
    recorder: Recorder | None,
) -> tuple[Fact, ...]:
    """All of them, in the order they are told; `sees` says whether the recorder sees an entry."""
    facts = [Fact(name="note", value=note) for note in checked.notes]
    facts += [Fact(name=f"{e} entry", value=f"missing: {why}") for e, why in checked.missing.items()]
    for entry, seen in observed.items():
        if seen.qualified:
            facts += _entry_facts(entry, seen, from_the_client=not sees(entry))
    facts += [fact for found in traffics for fact in traffic_facts(found)]
    if pool is not None:
        facts.append(pool)
    named = {
        "stopped": wires.stopped,
        "Retry-After": wires.waits,
        "engine": wires.engine_note,
        "recorder": recorder.notice if recorder is not None else None,
    }
    return (*facts, *(Fact(name=name, value=value) for name, value in named.items() if value))


def _entry_facts(entry: Entry, seen: Observed, *, from_the_client: bool) -> Iterator[Fact]:
    counts = seen.cached_counts
    yield Fact(name=f"{entry}: cache", value=seen.cache_state.value)
    if counts:
        yield Fact(name=f"{entry}: granularity", value=f"{seen.granule} tokens (from {len(counts)} counts)")
    yield Fact(name=f"{entry}: template floor", value=f"{seen.qualification.floor} tokens")
    if from_the_client:
        yield Fact(name=f"{entry}: watched for", value=seen.watched)
