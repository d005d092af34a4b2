"""What a run starts for itself: the embedded pair where no target is named, a recorder and load where asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from conformance.observe.under_load import LOAD_FAULTS, LoadRuns, LoadSettings
from conformance.options import RunOptions
from conformance.pair import ALIAS, embedded_pair, engine_config
from conformance.preflight import Preflight
from conformance.recorder import Recorder, relay
from conformance.verdicts import Entry


@dataclass(frozen=True)
class Started:
    """The target's URL, the model to name, the recorder between gateway and engine, and what restarts the target in
    this process, if anything does."""

    url: str
    model: str
    recorder: Recorder | None
    restart: Callable[[], None] | None = None


def start(options: RunOptions, stack: ExitStack, marker: bytes) -> Started:
    """Start what the run needs; all of it ends with `stack`."""
    if options.target is None:
        config = engine_config(template=options.template, block_size=options.block_size, tokenizer=options.tokenizer)
        pair = stack.enter_context(
            embedded_pair(
                engine=config,
                fault=gateway_fault(options),
                marker=marker,
                listen=options.upstream_listen,
                recorder=options.recorder,
            )
        )
        return Started(pair.gateway_url, options.model or ALIAS, pair.recorder, pair.restart)
    recorder = None
    if options.upstream_listen:
        recorder = stack.enter_context(relay(options.engine, marker=marker, listen=options.upstream_listen))
    return Started(options.target, options.model or "", recorder)


def gateway_fault(options: RunOptions) -> str | None:
    """The fault of the run's own pair; one that only load shows is in the pair that the load generator starts."""
    return None if options.fault in LOAD_FAULTS else options.fault


def load_runs(options: RunOptions, checked: Preflight, entry: Entry) -> LoadRuns:
    """Runs of the load generator through one entry: at the target, or at an embedded pair of their own."""
    settings = LoadSettings(
        target=checked.target if options.target else None,
        model=checked.model,
        api_key=options.api_key,
        engine=options.engine_metrics or options.engine,
        fault=options.fault,
        template=options.template,
        block_size=options.block_size,
        seed=options.seed,
        yes_load=options.yes_load,
        pool_tokens=options.pool_tokens,
        l2_tokens=options.l2_tokens,
        timeout_s=options.timeout_s,
    )
    return LoadRuns(settings, entry)
