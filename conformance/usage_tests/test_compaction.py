"""Do clients that compact at a share of their window do so at the size their context really has?"""

from __future__ import annotations

from conformance.casebook import Judge, rule
from conformance.judgements import compaction
from conformance.observe.observed import Observed


@rule("CMP-01")
def test_clients_compact_at_the_true_size(observed: Observed, judge: Judge) -> None:
    """A growing session through a client that adds up an answer's counts, until it compacts; and its turns cold."""
    judge(compaction.compacts_at_the_true_size(observed))
