"""Both engines on the same traffic, and how many prompt tokens a second each goes through.

Prompts are sent cold, then L1 is emptied and they are sent again, so that hashing, storing and loading all count. No
trace is taken. The embedded core is timed as `EngineCore` is used by the server; vLLM's scheduler with nothing but the
acknowledgement of its transfers.
"""

import time
from dataclasses import dataclass

from engine.differential.scripts import Asked, Script
from engine.differential.vllm_child import VllmChild, VllmError
from engine.embedded.core import EngineCore
from engine.embedded.groups import parse_groups

TRAFFIC = (
    ("full, block 16", "full:16", 16, 16_000),
    ("full, block 128", "full:128", 16, 64_000),
    ("full + window, block 16", "full:16,window:16:128", 16, 16_000),
    ("DeepSeek-V4's groups", "mla:256,window:64:128,window:64:128:draft,window:4:8,window:8:128", 8, 16_000),
)


@dataclass(frozen=True, slots=True)
class Speed:
    """Prompt tokens, and seconds either engine took for them; `external`: tokens loaded, the same for both."""

    name: str
    tokens: int
    embedded: float
    vllm: float
    external: int

    def line(self) -> str:
        """Both in thousands of tokens a second."""
        return (
            f"{self.name}: {self.tokens} prompt tokens, embedded {self.tokens / self.embedded / 1e3:.0f} k/s, "
            f"vLLM {self.tokens / self.vllm / 1e3:.0f} k/s, {self.external} loaded by both"
        )


def traffic(name: str, groups: str, prompts: int, length: int) -> Script:
    """`prompts` prompts of `length` tokens, one after another, twice."""
    parsed = parse_groups(groups)
    asked = [
        Asked(tuple((seed * 7_919 + place) % 50_021 for place in range(length)), (1, 2)) for seed in range(prompts)
    ]
    every = sum(-(-length * prompts // group.block) + 2 for group in parsed)
    pause = -(-length // 8_192) + 6
    events = [(number * pause, "add", number) for number in range(prompts)]
    events.append((prompts * pause, "reset", False))
    events += [((prompts + 1 + number) * pause, "add", prompts + number) for number in range(prompts)]
    return Script(
        name=name,
        groups=parsed,
        num_blocks=2 * every,
        chunk_blocks=1,
        l2_chunks=2 * every,
        retention=0,
        budget=8_192,
        seats=8,
        prompt_only=True,
        copy_steps=0,
        requests=(*asked, *asked),
        events=tuple(events),  # type: ignore[arg-type]
    )


def embedded(script: Script, version: str) -> tuple[float, int]:
    """Seconds and tokens loaded on the embedded core."""
    core = EngineCore(script.config(version))
    events = list(reversed(script.events))
    began = time.perf_counter()
    now = 0
    while events or core.has_work:
        while events and events[-1][0] <= now:
            _at, what, argument = events.pop()
            if what == "add":
                asked = script.requests[int(argument)]
                core.add(str(argument), asked.prompt, outputs=asked.outputs)
            else:
                core.reset_prefix_cache()
        core.step()
        now += 1
    return time.perf_counter() - began, core.stats.external_hits


def side_by_side(child: VllmChild) -> list[Speed]:
    """All traffic on both. Raises `VllmError` if vLLM fails, or loads other than the model does."""
    found = []
    for name, groups, prompts, length in TRAFFIC:
        script = traffic(name, groups, prompts, length)
        real = child.play(script, quiet=True)
        if "requests" not in real:
            raise VllmError(str(real.get("error") or real.get("unsupported")))
        seconds, external = embedded(script, child.version)
        loaded = sum(request["external"] for request in real["requests"].values())
        if loaded != external:
            raise VllmError(f"{name}: vLLM loads {loaded} tokens, the model {external}")
        tokens = sum(len(asked.prompt) for asked in script.requests)
        found.append(Speed(name, tokens, seconds, real["seconds"], external))
    return found
