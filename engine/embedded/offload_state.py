"""What the host tier's scheduler keeps: of each request, and of each transfer."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.embedded.offload_search import ChunkGroup


@dataclass(slots=True, eq=False)
class Copies:
    """One transfer: chunk keys and device blocks, of the request `owner`, due after `due` steps of the engine."""

    owner: "OffloadState"
    keys: list[bytes]
    blocks: list[int]
    is_store: bool
    due: int
    fenced: list[int] = field(default_factory=list)
    fenced_at_end: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class OffloadState:
    """What the tier's scheduler knows of one request."""

    request_id: str
    prompt_len: int
    keys: list[list[bytes]]  # chunk keys of each group, for everything the request will ever hold
    blocks: list[list[int]]
    stored: list[int]  # chunks of each group that have been offered
    hit_chunks: list[int]
    known: int = 0  # tokens whose keys are known by now
    local: int = 0
    promoted: int = 0  # tokens the full groups give although a window group lacks its part; 0: nothing of the kind
    jobs: list[Copies] = field(default_factory=list)
    seen: dict[bytes, tuple[int, int]] = field(default_factory=dict)  # chunk -> where it ends (tokens), group
    ended: bool = False
    aborted: bool = False
    signed_off: bool = False

    def known_keys(self, group: ChunkGroup) -> Sequence[bytes]:
        """Keys of the chunks whose tokens are known."""
        own, count = self.keys[group.number], self.known // group.tokens
        return own if count >= len(own) else own[:count]
