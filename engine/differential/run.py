"""Many scripts on both engines, and what came of it."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from engine.differential.compare import Trace, coverage, difference
from engine.differential.generate import GROUP_SETS, random_script
from engine.differential.model_run import play
from engine.differential.scripts import Script
from engine.differential.vectors import condensed
from engine.differential.vllm_child import VllmChild
from engine.embedded.core import EngineCore


@dataclass
class Outcome:
    """Counts over many scripts: what they covered in all and by group set, and those on which the engines differ."""

    version: str
    covered: Counter[str] = field(default_factory=Counter)
    by_set: Counter[str] = field(default_factory=Counter)
    differing: list[tuple[Script, str]] = field(default_factory=list)
    refused: list[tuple[Script, str]] = field(default_factory=list)
    prompt_tokens: int = 0
    model_seconds: float = 0.0
    vllm_seconds: float = 0.0

    def lines(self) -> list[str]:
        """The outcome in words."""
        scripts = self.covered["scripts"]
        found = [f"vLLM {self.version}: {scripts} scripts, {len(self.differing)} with a difference"]
        found += [f"  {name}: {count}" for name, count in sorted(self.by_set.items())]
        found += [f"  {name}: {count}" for name, count in sorted(self.covered.items()) if name != "scripts"]
        if self.refused:
            found.append(f"  refused by vLLM: {len(self.refused)} ({self.refused[0][1]})")
        if self.model_seconds and self.vllm_seconds:
            found.append(
                f"  {self.prompt_tokens} prompt tokens, traces included: embedded "
                f"{self.prompt_tokens / self.model_seconds / 1e3:.0f} k tokens/s, vLLM "
                f"{self.prompt_tokens / self.vllm_seconds / 1e3:.0f} k tokens/s"
            )
        for script, what in self.differing[:10]:
            found.append(f"  {script.name} ({script.title})\n    {what}")
        return found


def scripts(count: int, first: int) -> Iterable[Script]:
    """`count` scripts of every group set, seeds from `first` on, the sets taking turns."""
    for seed in range(first, first + count):
        for kind in GROUP_SETS:
            yield random_script(kind, seed)


def both(
    script: Script, child: VllmChild, core_class: type[EngineCore] = EngineCore
) -> tuple[Trace, Trace, str | None]:
    """The model's trace, vLLM's, and the first difference. A geometry vLLM refuses has an `unsupported` trace."""
    real = child.play(script)
    if "unsupported" in real:
        return {}, real, None
    if "error" in real:
        return {}, real, f"vLLM raised {real['error']}"
    model = play(script, child.version, core_class=core_class)
    return model, real, difference(model, real)


def compare_all(todo: Iterable[Script], children: Sequence[VllmChild]) -> Outcome:
    """Play all scripts, shared out over the children."""
    outcome = Outcome(children[0].version)
    everything = list(todo)

    def share(place: int) -> list[tuple[Script, Trace, Trace, str | None]]:
        own = islice(everything, place, None, len(children))
        return [(script, *both(script, children[place])) for script in own]

    with ThreadPoolExecutor(len(children)) as pool:
        for results in pool.map(share, range(len(children))):
            for script, model, real, what in results:
                if not model:
                    (outcome.differing if what else outcome.refused).append((script, what or str(real["unsupported"])))
                    continue
                outcome.covered += coverage(model, script)
                outcome.by_set[script.name.rsplit("/", 1)[0]] += 1
                outcome.prompt_tokens += sum(len(asked.prompt) for asked in script.requests)
                outcome.model_seconds += model["seconds"]
                outcome.vllm_seconds += real["seconds"]
                if what:
                    outcome.differing.append((script, what))
    return outcome


def first_catch(
    mutant: type[EngineCore], recorded: Iterable[tuple[Script, Trace]], version: str, limit: float = 60.0
) -> tuple[Script, str] | None:
    """The first script on which a mutant differs from vLLM's recorded trace, within `limit` seconds."""
    end = time.monotonic() + limit
    for script, real in recorded:
        try:
            trace = play(script, version, core_class=mutant)
            what = None if condensed(trace) == real["condensed"] else "its trace is not vLLM's"
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
        if what is not None:
            return script, what
        if time.monotonic() > end:
            break
    return None
