"""`prefixproof-engine`: start an engine, read one, and say what is wrong with one."""

import argparse
import sys
from collections.abc import Sequence
from typing import get_args

from engine import doctor, inspect_command, probe_command
from engine.embedded import ConfigError, EngineConfig, create_app
from engine.embedded.config import TemplateName, TokenizerName, WindowRule
from engine.embedded.faults import TIER_FAULTS
from engine.embedded.groups import GroupError, parse_groups
from engine.embedded.server import PortError, listen, serve, url_of
from engine.prove.cli import add_prove
from engine.vllm import command as vllm

_DEFAULTS = EngineConfig()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. 0 after a clean stop; 2 for a value or an address that cannot be used, said on stderr."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["serve"] and _backend(words) == "vllm":
        # Its options are vLLM's own and more than argparse can be told here.
        return vllm.serve(words[1:])
    arguments = _parser().parse_args(words)
    return int(arguments.run(arguments))


def _backend(words: Sequence[str]) -> str:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--backend", default="embedded")
    try:
        return str(parser.parse_known_args(words)[0].backend)
    except argparse.ArgumentError:
        return "embedded"  # whose parser says what is wrong


def _serve(arguments: argparse.Namespace) -> int:
    try:
        config = _config(arguments)
        app = create_app(config, fault=arguments.fault)
        listener = listen(arguments.host, arguments.port)
    except (ConfigError, GroupError, PortError) as error:
        sys.stderr.write(f"prefixproof-engine: {error}\n")
        return 2
    url = url_of(listener)

    def ready() -> None:
        sys.stdout.write(f"prefixproof-engine: {', '.join(config.names)} at {url}\n")
        sys.stdout.flush()

    serve(app, listener, on_ready=ready, on_stop=app.state.stop)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="prefixproof-engine",
        description="An engine to put behind a gateway, and what an engine says of its caches.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    _add_serve(commands)
    profiles = commands.add_parser("profiles", help="list the launch profiles of --backend vllm", allow_abbrev=False)
    profiles.set_defaults(run=lambda _: vllm.list_profiles())
    inspect_command.add_command(commands)
    probe_command.add_command(commands)
    doctor.add_command(commands)
    add_prove(commands)
    return parser


def _add_serve(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    serving = commands.add_parser(
        "serve",
        help="serve an engine until SIGINT or SIGTERM",
        description="Serve an engine until SIGINT or SIGTERM. Prints one line with its URL when it answers requests. "
        "`serve --backend vllm --help` has the options of real vLLM.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add = serving.add_argument
    add("--backend", choices=["embedded", "vllm"], default="embedded", help="which engine")
    add("--host", default="127.0.0.1", help="address to listen on")
    add("--port", type=int, default=8000, help="port to listen on, 0 for a free one")
    add("--model", default=_DEFAULTS.model, help="model name")
    add("--served-name", nargs="+", default=[], metavar="NAME", help="names requests use instead of the model's")
    add("--template", choices=get_args(TemplateName), default=_DEFAULTS.template, help="chat template")
    add("--tokenizer", choices=get_args(TokenizerName), default=_DEFAULTS.tokenizer, help="vocabulary")
    add("--block-size", type=int, default=_DEFAULTS.block_size, help="tokens a block")
    add("--num-blocks", type=int, default=_DEFAULTS.num_blocks, help="blocks of the pool (L1), the null block included")
    add("--max-model-len", type=int, default=None, help="longest prompt and output, in tokens; unset: the pool's size")
    add("--max-num-batched-tokens", type=int, default=_DEFAULTS.max_num_batched_tokens, help="most tokens a step")
    add("--max-num-seqs", type=int, default=_DEFAULTS.max_num_seqs, help="most requests running at once")
    tier = serving.add_mutually_exclusive_group()
    tier.add_argument("--l2-chunks", type=int, default=None, help="chunks of the host tier (L2); unset or 0: no L2")
    tier.add_argument("--l2-bytes", type=int, default=None, help="bytes of the host tier (L2)")
    add("--chunk-blocks", type=int, default=_DEFAULTS.chunk_blocks, help="blocks a chunk")
    add("--bytes-per-token", type=int, default=_DEFAULTS.bytes_per_token, help="bytes of a token's keys and values")
    add("--offload-outputs", action="store_true", help="keep generated tokens in L2 too, not prompts only")
    add("--no-prompt-tokens-details", action="store_true", help="leave cached tokens out of usage")
    add("--kv-groups", default=None, metavar="GROUPS", help="KV groups, as full:16,window:16:128,full:16:draft")
    add("--vllm-version", default=_DEFAULTS.vllm_version, help="release whose rules the groups follow")
    add("--retention-interval", type=int, default=_DEFAULTS.retention_interval, help="tokens between kept window tails")
    add("--window-rule", choices=get_args(WindowRule), default=_DEFAULTS.window_rule, help="what a missing window does")
    add("--copy-steps", type=int, default=_DEFAULTS.copy_steps, help="steps a copy to or from L2 takes beyond its own")
    add("--step-interval", type=float, default=_DEFAULTS.step_interval, help="seconds between two tokens")
    add("--fault", choices=TIER_FAULTS, default=None, help="break the host tier (L2) in one named way")
    serving.set_defaults(run=_serve)


def _config(arguments: argparse.Namespace) -> EngineConfig:
    groups = parse_groups(arguments.kv_groups) if arguments.kv_groups else ()
    return EngineConfig(
        model=arguments.model,
        served_names=tuple(arguments.served_name),
        block_size=groups[0].block if groups else arguments.block_size,
        groups=groups,
        vllm_version=arguments.vllm_version,
        retention_interval=arguments.retention_interval,
        window_rule=arguments.window_rule,
        copy_steps=arguments.copy_steps,
        num_blocks=arguments.num_blocks,
        chunk_blocks=arguments.chunk_blocks,
        l2_chunks=arguments.l2_chunks,
        l2_bytes=arguments.l2_bytes,
        bytes_per_token=arguments.bytes_per_token,
        offload_prompt_only=not arguments.offload_outputs,
        max_model_len=arguments.max_model_len,
        max_num_batched_tokens=arguments.max_num_batched_tokens,
        max_num_seqs=arguments.max_num_seqs,
        template=arguments.template,
        tokenizer=arguments.tokenizer,
        prompt_tokens_details=not arguments.no_prompt_tokens_details,
        step_interval=arguments.step_interval,
    )
