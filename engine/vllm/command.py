"""`prefixproof-engine serve --backend vllm` and `prefixproof-engine profiles`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from engine.vllm.environment import VllmError, find
from engine.vllm.launch_profile import Profile, load, names
from engine.vllm.server import START_S, VllmServer

WATCH_S = 0.5


def serve(argv: Sequence[str]) -> int:
    """Start vLLM from a profile and stay until SIGINT or SIGTERM.

    0 after a clean stop; 2 where it cannot be started; 3 where it ended by itself. Progress goes to stderr, one line
    with the URL to stdout.
    """
    parser = _parser()
    options, flags = parser.parse_known_args(argv)
    try:
        profile = _profile(options, [word for word in flags if word != "--"])
        if options.show:
            sys.stdout.write(profile.shown() + "\n")
            return 0
        log = options.log or Path(tempfile.mkdtemp(prefix="prefixproof-vllm-")) / "vllm.log"
        environment = find(gpu=profile.device == "cuda")
        server = VllmServer(profile, environment, log=log, host=options.host, port=options.port)
        _say(f"vLLM {environment.version()} ({environment.where}), profile {profile.name}; log: {log}")
        return _run(server, options.start_timeout)
    except VllmError as error:
        _say(str(error))
        return 2


def list_profiles() -> int:
    """Print the profiles, one a line."""
    width = max(map(len, names()))
    for name in names():
        profile = load(name)
        sys.stdout.write(f"{name:<{width}}  {profile.device:<4}  {profile.title}\n")
    return 0


def _run(server: VllmServer, start_timeout: float) -> int:
    asked = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        del number, frame
        if not asked.is_set():
            asked.set()
            raise _StopAsked

    former = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.start(say=_say, timeout_s=start_timeout)
        sys.stdout.write(f"prefixproof-engine: {server.profile.served_name} at {server.url}\n")
        sys.stdout.flush()
        while (code := server.wait(WATCH_S)) is None:
            pass
        _say(f"vLLM ended by itself ({code}): {server.why()}. Its log: {server.log}")
        return 3
    except _StopAsked:
        return 0
    finally:
        asked.set()
        if not server.stop():
            _say("vLLM did not end when asked and was killed")
        for number, handler in former.items():
            signal.signal(number, handler)


class _StopAsked(Exception):
    """A signal asked for the end."""


def _profile(options: argparse.Namespace, flags: list[str]) -> Profile:
    env = {}
    for pair in options.env:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise VllmError(f"--env {pair}: give NAME=VALUE")
        env[name] = value
    return load(options.profile).overridden(flags, env)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="prefixproof-engine serve --backend vllm",
        description="Serve real vLLM from a launch profile until SIGINT or SIGTERM. Every other option is one of "
        "`vllm serve` and takes the place of the profile's: --block-size 64, --no-enforce-eager, "
        "--kv-transfer-config.kv_connector_extra_config.cpu_bytes_to_use 1000000.",
        epilog=f"profiles: {', '.join(names())}",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--backend", choices=["vllm"], default="vllm", help=argparse.SUPPRESS)
    add("--profile", default="cpu-tiny", metavar="NAME", help="a profile, or a .toml file (default: %(default)s)")
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--port", type=int, default=8000, help="port to listen on, 0 for a free one (default: %(default)s)")
    add("--env", action="append", default=[], metavar="NAME=VALUE", help="an environment variable for vLLM")
    add("--log", type=Path, metavar="FILE", help="vLLM's log (default: in a new temporary folder)")
    add(
        "--start-timeout",
        type=float,
        default=START_S,
        metavar="SECONDS",
        help="until it answers (default: %(default)s)",
    )
    add("--show", action="store_true", help="print the launch and start nothing")
    return parser


def _say(text: str) -> None:
    sys.stderr.write(f"prefixproof-engine: {text}\n")
    sys.stderr.flush()
