"""What a run found out about its target beside the verdicts, as the lines of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conformance.observe.observed import Observed
from conformance.preflight import Preflight
from conformance.verdicts import Entry, Fact


def facts_of(
    checked: Preflight, observed: Mapping[Entry, Observed], *, stopped: str | None, engine: str, recorder: Sequence[str]
) -> tuple[Fact, ...]:
    """`stopped` says why sending ended early, `engine` and `recorder` what to know of those two."""
    return (
        *(Fact(name="note", value=note) for note in checked.notes),
        *(Fact(name=f"{entry} entry", value=f"missing: {why}") for entry, why in checked.missing.items()),
        *(fact for entry, seen in observed.items() if seen.qualified for fact in _of_cache(entry, seen)),
        *(Fact(name=name, value=value) for name, value in (("stopped", stopped), ("engine", engine)) if value),
        *(Fact(name="recorder", value=note) for note in recorder),
    )


def _of_cache(entry: Entry, seen: Observed) -> Iterator[Fact]:
    counts = seen.cached_counts
    yield Fact(name=f"{entry}: sessions", value=f"shaped like {seen.lab.client.name}")
    yield Fact(name=f"{entry}: cache", value=seen.cache_state.value)
    if counts:
        yield Fact(name=f"{entry}: granularity", value=f"{seen.granule} tokens (from {len(counts)} counts)")
    yield Fact(name=f"{entry}: template floor", value=f"{seen.qualification.floor} tokens")
