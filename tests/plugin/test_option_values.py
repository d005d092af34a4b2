"""Reading what a user typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.errors import UsageProblem
from conformance.option_values import read_options
from conformance.options import Budget, RunOptions
from conformance.verdicts import Entry


def test_nothing_typed_means_the_embedded_pair_with_the_defaults() -> None:
    assert read_options({}) == RunOptions()
    assert read_options({}, environment_key="k").api_key is None


def test_everything_typed_arrives() -> None:
    options = read_options(
        {
            "target": "https://gw.example/base/",
            "model": "llm-prime",
            "api-key": "typed",
            "entry": "chat, messages",
            "engine": "http://vllm:8000",
            "upstream-listen": "127.0.0.1:9100",
            "rules": "PFX-*,USE-01",
            "budget": "quick",
            "report": "out",
            "write-baseline": "known.toml",
            "allow-unjudged": "usage",
            "allow-disruptive": True,
            "restart-command": "sh -c 'docker restart \"gw 1\"'",
            "seed": "7",
            "client": "claude-code-2.1.332, pi-0.73.1",
            "shape": "full",
            "timeout": "2.5",
        },
        environment_key="environment",
    )
    assert options == RunOptions(
        target="https://gw.example/base",
        model="llm-prime",
        api_key="typed",
        entries=(Entry.MESSAGES, Entry.CHAT),
        engine="http://vllm:8000",
        upstream_listen="127.0.0.1:9100",
        rules=("PFX-*", "USE-01"),
        budget=Budget.QUICK,
        report_dir=Path("out"),
        write_baseline=Path("known.toml"),
        allow_unjudged=("usage",),
        allow_disruptive=True,
        restart_command=("sh", "-c", 'docker restart "gw 1"'),
        seed=7,
        clients=("claude-code-2.1.332", "pi-0.73.1"),
        shape="full",
        timeout_s=2.5,
    )


def test_the_embedded_pair_takes_its_own_options() -> None:
    options = read_options(
        {"fault": "drop-system", "template": "system-first", "block-size": "256", "tokenizer": "deepseek"}
    )
    assert (options.fault, options.template, options.block_size, options.tokenizer) == (
        "drop-system",
        "system-first",
        256,
        "deepseek",
    )


def test_the_environments_key_is_used_with_a_target_and_shown_nowhere() -> None:
    options = read_options({"target": "http://gw"}, environment_key="sk-secret")
    assert options.api_key == "sk-secret"
    assert "secret" not in repr(options)


def test_a_restart_command_is_shown_nowhere_for_its_arguments_may_be_secrets() -> None:
    typed: dict[str, str | bool | None] = {"target": "http://gw"}
    typed |= {"restart-command": "sh -c 'k=sk-secret'", "allow-disruptive": True}
    assert "secret" not in repr(read_options(typed))
    for command in ("no-such-program sk-secret", "KEY=sk-secret docker restart gw", "KEY=/run/sk-secret ./restart"):
        with pytest.raises(UsageProblem) as refused:
            read_options({**typed, "restart-command": command})
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": ""}, "--target is empty"),
        ({"target": "gw:3000"}, "--target: not an http(s) URL"),
        ({"target": "ftp://gw"}, "--target: not an http(s) URL"),
        ({"target": "http://gw:port"}, "--target: not a URL"),
        ({"target": "http://[::1"}, "--target: not a URL"),
        ({"target": "http://gw", "engine": "vllm:8000"}, "--engine: not an http(s) URL"),
        ({"target": "http://gw", "fault": "drop-system"}, "--fault only goes with the embedded pair"),
        ({"target": "http://gw", "template": "tools-first"}, "--template only goes with the embedded pair"),
        ({"target": "http://gw", "block-size": "64"}, "--block-size only goes with the embedded pair"),
        ({"target": "http://gw", "tokenizer": "fast"}, "--tokenizer only goes with the embedded pair"),
        ({"engine": "http://vllm:8000"}, "--engine needs --target"),
        ({"api-key": "k"}, "--api-key needs --target"),
        ({"allow-disruptive": True}, "--allow-disruptive needs --target"),
        ({"restart-command": "true", "allow-disruptive": True}, "--allow-disruptive needs --target"),
        (
            {"target": "http://gw", "restart-command": "true"},
            "--restart-command restarts the gateway for everybody: if it may, add --allow-disruptive",
        ),
        (
            {"target": "http://gw", "restart-command": "KEY=1 docker restart gw", "allow-disruptive": True},
            "--restart-command: it is run without a shell, so write env KEY=... before the program",
        ),
        (
            {"target": "http://gw", "restart-command": "sh -c 'x", "allow-disruptive": True},
            "--restart-command cannot be read as a command line (No closing quotation)",
        ),
        (
            {"target": "http://gw", "restart-command": "no-such-program --key sk-1", "allow-disruptive": True},
            "--restart-command: there is no program no-such-program here",
        ),
        ({"fault": "nope"}, "--fault nope: no such fault; known are keep-billing-header, "),
        ({"entry": "responses"}, "--entry responses: choose from messages, chat"),
        ({"entry": ","}, "--entry names no entry"),
        ({"rules": "PFX-01,NOPE"}, "--rules NOPE: no rule has such an id"),
        ({"budget": "huge"}, "--budget huge: choose from quick, standard, full"),
        ({"allow-unjudged": "cash"}, "--allow-unjudged cash: choose from cache, usage"),
        ({"baseline": "no-such-file.toml"}, "--baseline no-such-file.toml: cannot be read (No such file"),
        ({"seed": "x"}, "--seed x: not a number"),
        ({"seed": "-1"}, "--seed -1: must be at least 0"),
        ({"timeout": "0"}, "--timeout 0: must be at least"),
        ({"timeout": "nan"}, "--timeout nan: must be at least"),
        ({"timeout": "inf"}, "--timeout inf: must be at least"),
        ({"block-size": "1.5"}, "--block-size 1.5: not a number"),
        ({"client": "emacs"}, "--client emacs: choose from claude-code-2.0.77, claude-code-2.1.50,"),
        ({"client": "aider-0.86.2"}, "--client aider-0.86.2: its requests do not only append"),
        ({"client": " ,"}, "--client names no client: choose from"),
        (
            {"client": "pi-0.73.1,opencode-1.18.33"},
            "--client pi-0.73.1,opencode-1.18.33: one client for /v1/messages and one",
        ),
        ({"shape": "round"}, "--shape round: choose from scaled, full"),
        ({"template": "none"}, "--template none: choose from tools-first, system-first"),
        ({"tokenizer": "none"}, "--tokenizer none: choose from fast, deepseek"),
        ({"target": "http://gw", "upstream-listen": "9100"}, "--upstream-listen 9100: write HOST:PORT"),
        ({"target": "http://gw", "upstream-listen": "h:99999"}, "--upstream-listen h:99999: write HOST:PORT"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_option_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        read_options(given)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_password_in_a_bad_url_is_not_repeated() -> None:
    with pytest.raises(UsageProblem) as caught:
        read_options({"target": "user:hunter2@gw"})
    assert "hunter2" not in str(caught.value)
