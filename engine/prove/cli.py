"""`prefixproof-engine prove`: can this launch load from its second tier?"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.differential.vllm_child import VllmChild, VllmError
from engine.embedded.families import FAMILIES, NEWEST, family_of
from engine.embedded.groups import GroupError, parse_groups
from engine.prove.launch import Launch, LaunchError, read_launch
from engine.prove.model_config import ModelError, ModelGroups, groups_of
from engine.prove.sweep import Play, model_player
from engine.prove.verdict import Setting, in_words, judge
from engine.prove.vllm_side import groups_from_vllm

_NATIVE = "OffloadingConnector"


class ProveError(ValueError):
    """Nothing can be proved; the message says what to give instead."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who plays the scripts, under which release's rules, and how to name them."""

    play: Play
    version: str
    name: str
    child: VllmChild | None = None


def add_prove(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser's commands."""
    parser = commands.add_parser(
        "prove",
        help="say, before a deploy, whether a launch can load from its second tier",
        description="Builds a model's KV groups without weights, sends prompts through vLLM's scheduler and offload "
        "connector, and says whether what is stored can ever be loaded. Without vLLM the embedded model answers.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--model-config", type=Path, metavar="FILE", help="the model's config.json")
    what.add_argument("--groups", metavar="GROUPS", help="groups as full:16,window:16:129[:draft] instead of a model")
    add("--launch", default="", metavar="COMMAND", help='the command that starts the engine: "vllm serve ..."')
    add("--python", metavar="FILE", help="interpreter of an environment that has vLLM; without it the model answers")
    add("--wheel", metavar="DIR", help="an unpacked wheel of another vLLM, used over that environment")
    add("--vllm-version", default=None, help="release whose rules the embedded model follows")
    add("--length", type=int, action="append", metavar="TOKENS", help="a prompt length to try instead of the sweep")
    add("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=prove)


def prove(arguments: argparse.Namespace) -> int:
    """0: loads for every length; 1: it does not; 2: nothing could be proved."""
    try:
        launch = read_launch(arguments.launch)
        with _speaker(arguments) as speaker:
            model = _groups(arguments, launch, speaker)
            setting = _setting(model, launch, speaker.version)
            verdict = judge(setting, speaker.play, speaker.version, speaker.name, arguments.length)
    except (LaunchError, ModelError, GroupError, ProveError, VllmError, RuntimeError) as error:
        sys.stderr.write(f"prefixproof-engine prove: {error}\n")
        return 2
    if arguments.json:
        told = {**verdict.as_json(), "groups": [group.name for group in setting.groups], "remarks": list(model.notes)}
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join([*in_words(verdict, setting.groups), *(f"  {n}" for n in model.notes)]) + "\n")
    return 0 if verdict.word == "loads" else 1


@contextmanager
def _speaker(arguments: argparse.Namespace) -> Iterator[Speaker]:
    if arguments.python is None:
        if arguments.wheel is not None:
            raise ProveError("--wheel is a vLLM to be run: name an interpreter with --python too")
        version = arguments.vllm_version or NEWEST
        try:
            family = family_of(version)
        except KeyError:
            raise ProveError(f"--vllm-version {version}: the rules of {', '.join(FAMILIES)} are known") from None
        yield Speaker(model_player(version), version, f"the embedded model of vLLM {family.name}; no vLLM was run")
        return
    if arguments.vllm_version is not None:
        raise ProveError("--vllm-version is for the embedded model; with --python the installed vLLM answers")
    with VllmChild(arguments.python, arguments.wheel) as child:
        yield Speaker(
            lambda script: child.play(script, quiet=True),
            child.version,
            f"vLLM {child.version}, its own scheduler and connector",
            child,
        )


def _groups(arguments: argparse.Namespace, launch: Launch, speaker: Speaker) -> ModelGroups:
    if arguments.groups is not None:
        return ModelGroups(parse_groups(arguments.groups))
    config = _read_config(arguments.model_config)
    if speaker.child is not None:
        return groups_from_vllm(arguments.python, arguments.wheel, arguments.model_config, launch)
    return groups_of(config, launch)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text())
    except OSError as error:
        raise ProveError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ProveError(f"{path} is no JSON: give the model's config.json") from None
    if not isinstance(config, dict):
        raise ProveError(f"{path} is no JSON object: give the model's config.json")
    return config


def _setting(model: ModelGroups, launch: Launch, version: str) -> Setting:
    if (launch.model or launch.arguments) and launch.connector is None:
        raise ProveError(
            "the launch configures no second tier: add --kv-transfer-config with OffloadingConnector, "
            "or --kv-offloading-size"
        )
    if launch.connector not in (None, _NATIVE):
        raise ProveError(f"the launch uses {launch.connector}: only {_NATIVE} is covered")
    if not launch.prefix_caching:
        raise ProveError("the launch switches prefix caching off: nothing is stored or loaded")
    family = family_of(version)
    groups = model.groups
    if model.unmarked_drafter and family.all_draft:
        # These releases take every group for the drafter's where none is marked.
        groups = tuple(_marked(group) for group in groups)
    retention = launch.retention
    if isinstance(retention, str):
        retention = None if family.name == "0.27-0.29" and version.startswith(("0.27", "0.28")) else 0
    return Setting(
        groups=groups,
        chunk_blocks=launch.chunk_blocks(groups[0].block),
        retention=retention,
        prompt_only=bool(launch.extra.get("offload_prompt_only", True)),
        budget=max(launch.budget, 1),
    )


def _marked(group: Any) -> Any:
    from dataclasses import replace

    return replace(group, draft=True)
