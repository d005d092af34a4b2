"""``prefixproof-gateway``: run the reference gateway from a channels file."""

import argparse
import signal
import socket
import sys
from collections.abc import Sequence
from types import FrameType

import uvicorn

from .app import create_app
from .config import ConfigError, GatewayConfig, load_config
from .faults import FAULTS
from .log import write_usage_to

_GRACE_S = 5
"""How long open streams may go on after a signal to stop."""

_KEEP_ALIVE_S = 75
"""How long an idle connection is kept, as proxies do: with uvicorn's 5 s a client that pauses often finds it closed."""


class _Server(uvicorn.Server):
    """Announces its address once it accepts connections."""

    def __init__(self, config: uvicorn.Config, announcement: str) -> None:
        super().__init__(config)
        self._announcement = announcement

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            sys.stdout.write(self._announcement + "\n")
            sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="prefixproof-gateway",
        description="A reference gateway: Anthropic Messages and OpenAI Chat in front of OpenAI-chat engines.",
    )
    parser.add_argument("--config", metavar="FILE", help="the channels file (TOML)")
    parser.add_argument("--host", help="listen here instead of where the file says")
    parser.add_argument("--port", type=int, help="listen here instead of where the file says; 0 takes a free port")
    parser.add_argument("--fault", metavar="NAME", help="break the right behaviour in one named way")
    parser.add_argument("--faults", action="store_true", help="list the faults and the rules they break")
    return parser


def _list_faults() -> str:
    lines = []
    for fault in FAULTS.values():
        breaks = " ".join(sorted(fault.breaks))
        if fault.breaks_if_tools_first:
            breaks += f" (tools first: also {' '.join(sorted(fault.breaks_if_tools_first))})"
        if fault.breaks_if_parallel:
            breaks += f" (with parallel calls: also {' '.join(sorted(fault.breaks_if_parallel))})"
        if fault.breaks_across_restart:
            breaks += f" (across a restart: also {' '.join(sorted(fault.breaks_across_restart))})"
        lines.append(f"{fault.name}: {fault.summary}\n    breaks {breaks}\n    seen: {fault.field_example}")
    return "\n".join(lines)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


def _announcement(listener: socket.socket, host: str, config: GatewayConfig, fault: str | None) -> str:
    port = listener.getsockname()[1]
    address = f"[{host}]" if ":" in host else host
    channels = ", ".join(channel.name for channel in config.channels)
    broken = f"; fault {fault}" if fault else ""
    return f"reference gateway at http://{address}:{port} (channels: {channels}{broken})"


def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
    def ignore(number: int, frame: FrameType | None) -> None:
        """uvicorn raises the signal again once it has shut down; that is no failure."""

    previous = {number: signal.signal(number, ignore) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run(sockets=[listener])
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _fail(*lines: str) -> int:
    for line in lines:
        sys.stderr.write(f"prefixproof-gateway: {line}\n")
    return 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM. Returns 0, or 2 if the configuration or the address cannot be used."""
    arguments = _parser().parse_args(argv)
    if arguments.faults:
        sys.stdout.write(_list_faults() + "\n")
        return 0
    if arguments.config is None:
        return _fail("give --config FILE; reference_gateway/channels.example.toml is one to start from")
    if arguments.port is not None and not 0 <= arguments.port <= 65535:
        return _fail("--port: give a number from 0 to 65535")
    try:
        config = load_config(arguments.config)
        app = create_app(config, fault=arguments.fault)
    except ConfigError as error:
        return _fail(*error.lines)
    except ValueError as error:
        return _fail(f"--fault: {error}")
    host = arguments.host or config.host
    port = config.port if arguments.port is None else arguments.port
    try:
        listener = _listen(host, port)
    except OSError as error:
        return _fail(f"cannot listen on {host}:{port} ({error.strerror}); choose another --host or --port")
    handler = None
    try:
        if config.usage_log is not None:
            handler = write_usage_to(config.usage_log)
        settings = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=_GRACE_S,
            timeout_keep_alive=_KEEP_ALIVE_S, lifespan="on",
        )  # fmt: skip
        _serve(_Server(settings, _announcement(listener, host, config, arguments.fault)), listener)
    except OSError as error:
        return _fail(f"usage_log: {error.strerror}; give a file that can be written")
    finally:
        listener.close()
        if handler is not None:
            handler.close()
    return 0
