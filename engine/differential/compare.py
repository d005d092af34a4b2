"""Two traces of one script: where they first differ, and what they have been through."""

from collections import Counter
from typing import Any

Trace = dict[str, Any]

_EVERY_STEP = ("scheduled", "sampled", "loads", "stores", "evicted_l1", "evicted_l2", "resets")


def difference(model: Trace, real: Trace) -> str | None:
    """The first thing the model has otherwise than vLLM, in words; None if they agree in everything."""
    mine, theirs = _trimmed(model["steps"]), _trimmed(real["steps"])
    for number, (one, other) in enumerate(zip(mine, theirs, strict=False)):
        for name in _EVERY_STEP:
            if one.get(name, []) != other.get(name, []):
                return f"step {number}: {name} {one.get(name)}, vLLM has {other.get(name)}"
        for name in ("l1", "l2", "free", "state"):
            if one.get(name) != other.get(name):
                return f"step {number}: {_state(name, one.get(name), other.get(name))}"
    if len(mine) != len(theirs):
        return f"{len(mine)} steps, vLLM took {len(theirs)}"
    for name, request in real["requests"].items():
        if model["requests"].get(name) != request:
            return f"request {name}: {model['requests'].get(name)}, vLLM has {request}"
    if model["finished"] != real["finished"]:
        return f"finished: {model['finished']}, vLLM {real['finished']}"
    return None


def _trimmed(steps: list[Trace]) -> list[Trace]:
    """Without the idle steps at the end: how long an idle engine is kept stepping is no property of the cache."""
    end = len(steps)
    while end and not any(steps[end - 1].get(name) for name in _EVERY_STEP):
        end -= 1
    return steps[:end]


def _state(name: str, one: Any, other: Any) -> str:
    if isinstance(one, list) and isinstance(other, list) and name != "free":
        return f"{name} has {[x for x in one if x not in other]}, vLLM has {[x for x in other if x not in one]}"
    return f"{name} is {one}, vLLM's {other}"


def coverage(trace: Trace, script: Any) -> Counter[str]:
    """What a script exercised: 1 for each thing that happened at all."""
    steps = trace["steps"]
    requests = trace["requests"]
    prompts = [asked.prompt for asked in script.requests]
    found: Counter[str] = Counter()
    found["scripts"] = 1
    found["evicting"] = any(step["evicted_l1"] or step["evicted_l2"] for step in steps)
    found["L2 evicting"] = any(step["evicted_l2"] for step in steps)
    found["loading"] = any(step["loads"] for step in steps)
    found["storing"] = any(step["stores"] for step in steps)
    found["L1 hits"] = any(request["local"] for request in requests.values())
    found["preempting"] = any(request["preemptions"] for request in requests.values())
    found["aborting"] = any(
        request["outputs"] < len(script.requests[int(name)].outputs) for name, request in requests.items()
    )
    found["branching"] = _branches(prompts)
    found["concurrent"] = any(len(step["scheduled"]) > 1 for step in steps)
    found["vetoed"] = bool(trace.get("vetoes"))
    found["slow copies"] = script.copy_steps > 0
    found["retention"] = bool(script.retention)
    return +found


def _branches(prompts: list[tuple[int, ...]]) -> bool:
    """Whether two prompts share a beginning and then part, neither continuing the other."""
    for place, one in enumerate(prompts):
        for other in prompts[place + 1 :]:
            shared = 0
            for a, b in zip(one, other, strict=False):
                if a != b:
                    break
                shared += 1
            if 3 < shared < min(len(one), len(other)):
                return True
    return False
