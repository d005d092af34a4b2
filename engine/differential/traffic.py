"""A file of requests on both engines, one after another: what each request finds in the cache, and how long that takes.

The file has a line of JSON a request, as `prefixproof-load replay` takes them: `prompt` (tokens), `block` (tokens a
block) and `ids`, of its full blocks; two prompts share what their ids share from the first on.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.differential.scripts import Asked, Script
from engine.differential.vllm_child import VllmChild, VllmError
from engine.differential.vllm_worker import tokens
from engine.embedded.core import EngineCore
from engine.embedded.groups import parse_groups

OUTPUTS = tuple(range(1, 15))
BUDGET = 8_192
"""Tokens a step, as vLLM's default for a server."""


class TrafficError(ValueError):
    """A file that is no traffic; the message names the line and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests in order: (prompt tokens, ids of full blocks)."""

    block: int
    served: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def tokens(self) -> int:
        """Of all prompts."""
        return sum(length for length, _ in self.served)

    def script(self, pool_tokens: int, l2_tokens: int) -> Script:
        """An engine of one full-attention group for it. Block 0 holds nothing, so there is one more."""
        longest = max(length for length, _ in self.served)
        return Script(
            groups=parse_groups(f"full:{self.block}"), num_blocks=pool_tokens // self.block + 1, chunk_blocks=1,
            l2_chunks=l2_tokens // self.block, retention=0, budget=BUDGET, seats=8, prompt_only=True, copy_steps=0,
            requests=(Asked((1,), OUTPUTS),), events=(), max_model_len=longest + len(OUTPUTS),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Beside:
    """Both engines on one traffic. `differing`: requests that do not find the same; seconds of CPU-bound work."""

    requests: int
    tokens: int
    cached: int
    differing: int
    embedded: float
    vllm: float
    version: str

    def line(self) -> str:
        """Both times, and what was found."""
        same = "no request differs" if not self.differing else f"{self.differing} REQUESTS DIFFER"
        return (
            f"{self.requests:,} requests, {self.tokens / 1e6:.1f} M prompt tokens, {self.cached / self.tokens:.2%} "
            f"of them cached, {same}: scheduling takes vLLM {self.version} {self.vllm:.1f} s "
            f"({1000 * self.vllm / self.requests:.1f} ms a request), the embedded core {self.embedded:.1f} s "
            f"({1000 * self.embedded / self.requests:.1f} ms)"
        )


def read(path: Path) -> Traffic:
    """Raises `TrafficError`."""
    block, served = 0, []
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TrafficError(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            size, length, ids = int(row["block"]), int(row["prompt"]), tuple(map(int, row["ids"]))
        except (KeyError, TypeError, ValueError) as error:
            raise TrafficError(
                f"{path}:{number}: want prompt, block and ids, all of them numbers ({error!r})"
            ) from error
        if size < 1 or length < 1 or len(ids) < length // size or size != (block or size):
            raise TrafficError(f"{path}:{number}: want one block size for all, and an id for each full block")
        block = size
        served.append((length, ids))
    if not served:
        raise TrafficError(f"{path} holds no request")
    return Traffic(block, tuple(served))


def embedded(
    script: Script, served: Sequence[tuple[int, Sequence[int]]], version: str
) -> tuple[float, list[list[int]]]:
    """Seconds, and (from L1, from L2) of each prompt, on the embedded core; making tokens is not counted in."""
    core = EngineCore(script.config(version))
    found, seconds = [], 0.0
    for number, (length, ids) in enumerate(served):
        prompt = tuple(tokens(length, list(ids), script.groups[0].block))
        began = time.perf_counter()
        core.add(str(number), prompt, outputs=OUTPUTS)
        request = core.request(str(number))
        while core.has_work:
            core.step()
        seconds += time.perf_counter() - began
        found.append([request.local, request.external])
    return seconds, found


def beside(traffic: Traffic, pool_tokens: int, l2_tokens: int, child: VllmChild) -> Beside:
    """The traffic on both. Raises `VllmError`."""
    script = traffic.script(pool_tokens, l2_tokens)
    real = child.serve(script, traffic.served)
    if "found" not in real:
        raise VllmError(str(real.get("error") or real.get("unsupported")))
    seconds, found = embedded(script, traffic.served, child.version)
    return Beside(
        requests=len(found), tokens=traffic.tokens, cached=sum(map(sum, found)),
        differing=sum(one != other for one, other in zip(found, real["found"], strict=True)),
        embedded=seconds, vllm=float(real["seconds"]), version=child.version,
    )  # fmt: skip
