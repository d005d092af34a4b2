"""A script: an engine's geometry and sizes, requests, and what happens at which step. Plain data, JSON both ways.

`prompt` and `outputs` are token ids; the outputs are what the "model" will say. Events are `(step, what, argument)`:
`add` and `abort` name a request by its place in the list, `reset` says whether L2 is cleared too. Events of one step
happen before it, in order.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from engine.embedded.config import EngineConfig
from engine.embedded.groups import KVGroup, describe

What = Literal["add", "abort", "reset"]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    prompt: tuple[int, ...]
    outputs: tuple[int, ...]
    salt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One engine and everything that is done to it. Sizes as in `EngineConfig`; `budget` is tokens a step."""

    groups: tuple[KVGroup, ...]
    num_blocks: int
    chunk_blocks: int
    l2_chunks: int
    retention: int | None
    budget: int
    seats: int
    prompt_only: bool
    copy_steps: int
    requests: tuple[Asked, ...]
    events: tuple[tuple[int, What, int | bool], ...]
    max_steps: int = 4_000
    max_model_len: int = 0
    name: str = ""

    @property
    def context(self) -> int:
        """Longest prompt and output, in tokens."""
        return self.max_model_len or max(len(r.prompt) + len(r.outputs) for r in self.requests)

    def config(self, version: str) -> EngineConfig:
        """The embedded engine of this script, under a vLLM release's rules."""
        return EngineConfig(
            block_size=self.groups[0].block,
            num_blocks=self.num_blocks,
            groups=self.groups,
            chunk_blocks=self.chunk_blocks,
            l2_chunks=self.l2_chunks,
            retention_interval=self.retention,
            max_num_batched_tokens=self.budget,
            max_num_seqs=self.seats,
            offload_prompt_only=self.prompt_only,
            copy_steps=self.copy_steps,
            vllm_version=version,
            max_model_len=self.context,
        )

    def message(self, *, detail: bool = False) -> dict[str, Any]:
        """What `vllm_worker` reads."""
        return {
            "groups": [asdict(group) for group in self.groups],
            "num_blocks": self.num_blocks,
            "chunk_blocks": self.chunk_blocks,
            "l2_chunks": self.l2_chunks,
            "retention": self.retention,
            "budget": self.budget,
            "seats": self.seats,
            "prompt_only": self.prompt_only,
            "copy_steps": self.copy_steps,
            "max_steps": self.max_steps,
            "max_model_len": self.context,
            "requests": [asdict(request) for request in self.requests],
            "events": [list(event) for event in self.events],
            "detail": detail,
        }

    def dump(self) -> str:
        """One line of JSON."""
        return json.dumps({**self.message(), "name": self.name}, separators=(",", ":"))

    @property
    def title(self) -> str:
        """Geometry and sizes in a line."""
        return (
            f"{describe(self.groups)} blocks={self.num_blocks} chunk={self.chunk_blocks} l2={self.l2_chunks} "
            f"retention={self.retention} budget={self.budget} seats={self.seats} copies={self.copy_steps}"
        )


def load(line: str) -> Script:
    """A script out of `dump`'s line."""
    data = json.loads(line)
    data.pop("detail", None)
    data["groups"] = tuple(KVGroup(**group) for group in data["groups"])
    data["requests"] = tuple(Asked(tuple(r["prompt"]), tuple(r["outputs"]), r["salt"]) for r in data["requests"])
    data["events"] = tuple((at, what, argument) for at, what, argument in data["events"])
    return Script(**data)
