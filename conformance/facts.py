"""What a run found out about its target beside the verdicts, as the lines of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from conformance.observe.observed import Observed
from conformance.preflight import Preflight
from conformance.traffic import Traffic
from conformance.traffic import facts as traffic_facts
from conformance.verdicts import Entry, Fact


def facts_of(
    checked: Preflight,
    observed: Mapping[Entry, Observed],
    traffics: Iterable[Traffic],
    *,
    sees: Callable[[Entry], bool],
    pool: Fact | None,
    stopped: str | None,
    waits: str | None,
    engine: str,
    restart: str | None,
    recorder: Sequence[str],
    loads: Mapping[Entry, str],
) -> tuple[Fact, ...]:
    """`sees` tells whether the recorder sees an entry, `stopped` why sending ended early, `waits` what of the target's
    Retry-After was kept, `engine` and `recorder` what to know of those two, `restart` what becomes of a restart of the
    target, `loads` what load sent beside it all."""
    return (
        *(Fact(name="note", value=note) for note in checked.notes),
        *(Fact(name=f"{entry} entry", value=f"missing: {why}") for entry, why in checked.missing.items()),
        *(fact for entry, seen in observed.items() if seen.qualified for fact in _of_cache(entry, seen, sees(entry))),
        *(fact for traffic in traffics for fact in traffic_facts(traffic)),
        *((pool,) if pool is not None else ()),
        *(
            Fact(name=name, value=value)
            for name, value in (("stopped", stopped), ("Retry-After", waits), ("engine", engine), ("restart", restart))
            if value
        ),
        *(Fact(name="recorder", value=note) for note in recorder),
        *(Fact(name=f"{entry}: load", value=told) for entry, told in loads.items() if told),
    )


def _of_cache(entry: Entry, seen: Observed, recorded: bool) -> Iterator[Fact]:
    counts = seen.cached_counts
    yield Fact(name=f"{entry}: sessions", value=f"shaped like {seen.lab.client.name}")
    yield Fact(name=f"{entry}: cache", value=seen.cache_state.value)
    if counts:
        few = "" if len(counts) >= seen.thresholds.qualify.min_counts else "a divisor of "
        yield Fact(name=f"{entry}: granularity", value=f"{few}{seen.granule} tokens (from {len(counts)} counts)")
    yield Fact(name=f"{entry}: template floor", value=f"{seen.qualification.floor} tokens")
    if not recorded:
        yield Fact(name=f"{entry}: watched for", value=seen.watched)
