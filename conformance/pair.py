"""The embedded pair: the reference gateway in front of the embedded engine, a recorder between them.

The only module of the suite that knows both; everything else talks to them over HTTP, as to any other gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from conformance.errors import UsageProblem
from conformance.messages_stub import beside
from conformance.recorder import Recorder, relay
from conformance.servers import Restartable, serve
from engine.embedded import ConfigError, EngineConfig
from engine.embedded import create_app as engine_app
from reference_gateway import FAULTS, Channel, GatewayConfig
from reference_gateway import create_app as gateway_app

MODEL = "deepseek-v4-flash"
"""The engine's own model name."""

ALIAS = "llm-prime"
"""The name clients use: a channel alias, as in the incident."""


NATIVE_MODEL = "messages-stub"
"""The model of the gateway's second channel, whose upstream speaks Messages itself."""


@dataclass(frozen=True)
class Pair:
    """URLs of the running pair, and its recorder if there is one. `restart` makes the gateway anew at its address."""

    gateway_url: str
    engine_url: str
    recorder: Recorder | None
    restart: Callable[[], None]


def check_fault(name: str | None) -> None:
    """Raises UsageProblem for a fault the gateway does not know."""
    if name is not None and name not in FAULTS:
        raise UsageProblem(f"--fault {name}: no such fault; the gateway knows {', '.join(sorted(FAULTS))}")


@contextmanager
def embedded_pair(
    *, engine: EngineConfig, fault: str | None = None, marker: bytes | None = None, listen: str | None = None,
    recorder: bool = True, strip_header: bool = True, exclude_cache: bool = True,
) -> Iterator[Pair]:  # fmt: skip
    """Run the pair on loopback until the context ends. Both of the incident's switches are on unless told otherwise.

    `marker` is what the recorder keeps requests by; without `recorder` the gateway talks to the engine itself.
    """
    check_fault(fault)
    with ExitStack() as stack:
        engine_server = stack.enter_context(serve(beside(engine_app(engine))))
        upstream: str = engine_server.url
        recording: Recorder | None = None
        if recorder:
            recording = stack.enter_context(relay(engine_server.url, marker=marker, listen=listen or "127.0.0.1:0"))
            upstream = recording.url or upstream
        vllm = vllm_channel(upstream, strip_header, exclude_cache)
        config = GatewayConfig(channels=(vllm, messages_channel(upstream)))
        gateway = stack.enter_context(Restartable(lambda: gateway_app(config, fault)))
        yield Pair(gateway.url, engine_server.url, recording, gateway.restart)


def vllm_channel(upstream_url: str, strip_header: bool = True, exclude_cache: bool = True) -> Channel:
    """The vLLM channel; as it should be, both switches are on."""
    return Channel(
        name="vllm",
        url=upstream_url,
        models=(MODEL,),
        aliases={ALIAS: MODEL},
        strip_anthropic_billing_header=strip_header,
        anthropic_messages_exclude_cache=exclude_cache,
    )


def messages_channel(upstream_url: str) -> Channel:
    """A channel whose upstream speaks Messages, as Claude's own API does: neither switch has a meaning there."""
    return Channel(name="messages", url=upstream_url, dialect="anthropic", models=(NATIVE_MODEL,))


def engine_config(*, template: str, block_size: int, tokenizer: str, pool_tokens: int = 4_000_000) -> EngineConfig:
    """The embedded engine of a run, from the options' words. Raises UsageProblem for a bad one."""
    try:
        return EngineConfig(
            model=MODEL,
            block_size=block_size,
            num_blocks=pool_tokens // block_size + 1,
            template=template,  # type: ignore[arg-type]  # checked by the config itself
            tokenizer=tokenizer,  # type: ignore[arg-type]
        )
    except (ConfigError, ValueError) as error:
        raise UsageProblem(f"embedded engine: {error}") from None
