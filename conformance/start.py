"""What a run starts for itself: the embedded pair where no target is named, a recorder where one is asked for."""

from __future__ import annotations

from contextlib import ExitStack

from conformance.options import RunOptions
from conformance.pair import ALIAS, embedded_pair, engine_config
from conformance.recorder import Recorder, relay


def start(options: RunOptions, stack: ExitStack, marker: bytes) -> tuple[str, str, Recorder | None]:
    """The target's URL, the model to name, and the recorder between gateway and engine; all end with `stack`."""
    if options.target is None:
        config = engine_config(template=options.template, block_size=options.block_size, tokenizer=options.tokenizer)
        pair = stack.enter_context(
            embedded_pair(
                engine=config,
                fault=options.fault,
                marker=marker,
                listen=options.upstream_listen,
                recorder=options.recorder,
            )
        )
        return pair.gateway_url, options.model or ALIAS, pair.recorder
    recorder = None
    if options.upstream_listen:
        recorder = stack.enter_context(relay(options.engine, marker=marker, listen=options.upstream_listen))
    return options.target, options.model or "", recorder
