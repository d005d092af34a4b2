"""How much of an engine's cache a run may fill: what it adds to a production pool evicts other users' prefixes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import httpx

from conformance.errors import UsageProblem
from conformance.observe.plan import Plan
from conformance.options import RunOptions
from conformance.verdicts import Entry, Fact
from conformance.wire.endpoint import is_loopback, plain_client_options

_INFO = re.compile(r"^vllm:cache_config_info\{(?P<labels>[^}]*)\}", re.MULTILINE)
_SIZES = ("block_size", "num_gpu_blocks")

Ask = Callable[[str], bool]
"""Puts a yes-or-no question to whoever sits at the terminal."""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What a run is about to send, and how many of its prompt tokens stay in the engine's cache."""

    requests: int
    tokens: int
    held: int

    @property
    def line(self) -> str:
        return f"about {self.requests:,} requests / {self.tokens:,} prompt tokens will be sent"


def pool_of(engine_url: str, timeout_s: float) -> int | None:
    """Tokens that vLLM's device pool holds, by `vllm:cache_config_info` in its /metrics; None where it does not say.

    Several engines behind one address are as one that is their smallest: a session may end on any of them.
    """
    try:
        with httpx.Client(timeout=min(timeout_s, 10.0), **plain_client_options(engine_url)) as client:
            answer = client.get(f"{engine_url.rstrip('/').removesuffix('/v1')}/metrics")
    except httpx.HTTPError:
        return None
    sizes = []
    for found in _INFO.finditer(answer.text if answer.is_success else ""):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', found["labels"]))
        if all(labels.get(name, "").isdigit() for name in _SIZES):
            blocks = int(labels["block_size"]) * int(labels["num_gpu_blocks"])
            # The groups of a hybrid model share the blocks; vLLM 0.29 and later say what is left.
            shared = labels.get("kv_cache_size_tokens", "")
            sizes.append(min(blocks, int(shared)) if shared.isdigit() else blocks)
    return min((size for size in sizes if size), default=None)


def is_production(*urls: str | None) -> bool:
    """True unless everything the run talks to is on this machine."""
    return any(url is not None and not is_loopback(url) for url in urls)


def demand_of(plans: Mapping[Entry, Plan]) -> Demand:
    """What the plans of all entries send together."""
    return Demand(
        requests=sum(plan.requests(entry) for entry, plan in plans.items()),
        tokens=sum(plan.tokens(entry) for entry, plan in plans.items()),
        held=sum(plan.held(entry) for entry, plan in plans.items()),
    )


def pool_fact(options: RunOptions, demand: Demand, ask: Ask | None) -> Fact | None:
    """What a run on a target is told of the engine's pool; None on the embedded pair. Raises UsageProblem."""
    if options.target is None:
        return None
    pool = options.pool_tokens
    engine = options.engine_metrics or options.engine
    if pool is None and engine is not None:
        pool = pool_of(engine, options.timeout_s)
    # Load fills the pool over and over: whoever allowed that has allowed the little that the suite itself adds.
    production = is_production(options.target, engine) and not options.load
    fact = check_pool(demand, pool, production=production, percent=options.pool_share, ask=ask)
    return replace(fact, value=f"{fact.value}; --load fills it on purpose") if options.load else fact


def check_pool(demand: Demand, pool: int | None, *, production: bool, percent: float, ask: Ask | None) -> Fact:
    """What a reader is told of the pool. Raises UsageProblem before a production engine's cache is filled too far.

    With an unknown pool, `ask` is put the question; without anybody to ask the run goes on and the report says so.
    """
    if pool is None:
        unknown = "the size of the engine's cache pool is unknown (--pool-tokens N says it; vLLM logs it at start)"
        if production and ask is not None and not ask(f"{unknown}. {demand.line}. Go on?"):
            raise UsageProblem("stopped at your word: only the preflight's requests were sent")
        asked = "; you were asked" if production and ask is not None else ""
        return Fact(name="pool", value=f"{unknown}: the limit of {percent:g} % was not checked{asked}")
    share = 100 * demand.held / pool
    holds = f"about {demand.held:,} of the pool's {pool:,} tokens ({share:.2g} %) are filled by this run"
    if production and share > percent:
        raise UsageProblem(
            f"{holds.replace('are filled', 'would be filled')}, where at most {percent:g} % of a production engine's "
            f"pool may be: choose --budget quick or one --entry, or allow it with --pool-share {share * 1.05:.2g}"
        )
    return Fact(name="pool", value=holds)
