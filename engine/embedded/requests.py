"""What the core knows of a request, what it says of it, and what it counts."""

from dataclasses import dataclass
from typing import NamedTuple

from engine.embedded.local_cache import Tables
from engine.embedded.offload_state import OffloadState


@dataclass(frozen=True, slots=True)
class RequestResult:
    """A finished request. `cached_tokens` = `local_tokens` (L1) + `external_tokens` (L2), as first scheduled."""

    request_id: str
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    local_tokens: int
    external_tokens: int
    preemptions: int


class TokenEvent(NamedTuple):
    """One generated token, number `place` (from 0) of its request; `result` comes with the last one."""

    request_id: str
    place: int
    result: RequestResult | None


@dataclass(slots=True)
class EngineStats:
    """Running totals since the core was built, in tokens unless named otherwise. A reset does not clear them.

    `queries`/`hits` and their external twins count when a request is admitted, once per request: readmissions after a
    preemption are left out. External queries exclude local hits. The prompt's sources count at its first token.
    """

    prefix_queries: int = 0
    prefix_hits: int = 0
    external_queries: int = 0
    external_hits: int = 0
    lookups: int = 0  # L2 lookups made
    prompt_tokens: int = 0
    prompt_tokens_local: int = 0
    prompt_tokens_external: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    finished_requests: int = 0
    aborted_requests: int = 0
    store_bytes: int = 0
    stores: int = 0  # transfers
    store_failures: int = 0  # stores given up because L2 could not make room
    load_bytes: int = 0
    loads: int = 0  # transfers


@dataclass(slots=True, eq=False)
class Request:
    """A request the core holds. Lengths in tokens."""

    id: str
    keys: list[list[bytes]]  # block keys of each group, for everything the request will ever hold
    prompt_len: int
    output_len: int
    tables: Tables
    offload: OffloadState | None = None
    computed: int = 0  # tokens in the cache
    emitted: int = 0  # tokens generated
    local: int = 0  # tokens found in L1 and L2 when it was last looked up before its first admission
    external: int = 0
    junction: int = 0  # where a prompt branched off one that only some groups still hold
    loading: bool = False  # its blocks are being read from L2
    arrived: bool = False  # they have been, and have no keys yet
    loaded: bool = False  # they have been, and the request can go on
    prefilling: bool = False  # admitted, and more of its prompt to come
    preemptions: int = 0
    admitted: bool = False

    @property
    def length(self) -> int:
        return self.prompt_len + self.emitted
