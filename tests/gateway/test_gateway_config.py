"""The channels file: what it means, and what is said when it is wrong."""

from pathlib import Path

import pytest

import reference_gateway
from reference_gateway import Channel, ConfigError, GatewayConfig, load_config
from reference_gateway.channels import ChannelTable
from reference_gateway.clients import is_loopback
from reference_gateway.errors import GatewayError

MINIMAL = '[[channels]]\nname = "c"\nurl = "http://127.0.0.1:1/v1"\nmodels = ["m"]\n'


def load(tmp_path: Path, text: str) -> GatewayConfig:
    path = tmp_path / "channels.toml"
    path.write_text(text, encoding="utf-8")
    return load_config(path)


def complaints(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    return "\n".join(line.removeprefix(f"{tmp_path}/channels.toml: ") for line in caught.value.lines)


def test_the_shipped_example_has_both_switches_on_for_vllm() -> None:
    config = load_config(Path(reference_gateway.__file__).with_name("channels.example.toml"))
    (channel,) = config.channels
    assert channel.strip_anthropic_billing_header
    assert channel.anthropic_messages_exclude_cache
    assert ChannelTable(config.channels).route("llm-prime").model == "deepseek-v4-flash-0731"


def test_defaults(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL)
    (channel,) = config.channels
    assert not channel.strip_anthropic_billing_header
    assert not channel.anthropic_messages_exclude_cache
    assert (channel.dialect, channel.secret) == ("openai-chat", None)
    assert config.max_body_bytes == 32 * 1024 * 1024
    assert config.accepted_keys == ()


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("http://h:1", "http://h:1"),
        ("http://h:1/", "http://h:1"),
        ("http://h:1/v1", "http://h:1"),
        ("http://h:1/v1/", "http://h:1"),
        ("https://h/api/v1", "https://h/api"),
    ],
)
def test_the_upstreams_root(url: str, root: str) -> None:
    assert Channel(name="c", url=url, models=("m",)).root == root


def test_keys_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UP_KEY", "s3cret")
    monkeypatch.setenv("IN_KEY", "client")
    config = load(tmp_path, 'client_keys = ["a"]\nclient_keys_env = ["IN_KEY"]\n' + MINIMAL + 'key_env = "UP_KEY"\n')
    assert config.channels[0].secret == "s3cret"
    assert config.accepted_keys == ("a", "client")


def test_keys_are_not_in_a_printed_configuration(tmp_path: Path) -> None:
    config = load(tmp_path, 'client_keys = ["hidden1"]\n' + MINIMAL + 'key = "hidden2"\n')
    assert config.channels[0].secret == "hidden2"
    assert "hidden" not in repr(config)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("channels = 3", "channels: "),
        ("", "channels: is missing; add it"),
        ("channels = []", "channels: is empty; give at least one"),
        ('[[channels]]\nurl = "http://h"\nmodels = ["m"]', "channels.0.name: is missing; add it"),
        (MINIMAL + "strip_billing = true", "channels.0.strip_billing: unknown key; the keys here are name, url,"),
        ("prot = 1\n" + MINIMAL, "prot: unknown key; the keys here are channels, host, port"),
        (MINIMAL.replace("http:", "ftp:"), "channels.0.url: give the upstream as http://HOST:PORT"),
        (MINIMAL.replace("/v1", "/v1?x=1"), "channels.0.url: leave out the query"),
        (MINIMAL + 'dialect = "openai"', "channels.0.dialect: "),
        (MINIMAL + 'aliases = { a = "gone" }', "alias 'a' points to 'gone', which is not in models"),
        (MINIMAL + 'key = "k"\nkey_env = "K"', "set key or key_env, not both"),
        (MINIMAL + 'key_env = "NOT_SET_ANYWHERE"', "variable NOT_SET_ANYWHERE is not set; export it"),
        (MINIMAL + "read_timeout_s = 0", "channels.0.read_timeout_s: "),
        (MINIMAL.replace('["m"]', "[]"), "channels.0.models: is empty; give at least one"),
        (MINIMAL.replace('"m"', '""'), "channels.0.models.0: is empty; give it a value"),
        (MINIMAL * 2, "two channels are named 'c'; rename one"),
        (MINIMAL + MINIMAL.replace('"c"', '"d"'), "model 'm' is offered twice (channels 'c' and 'd')"),
        (MINIMAL + 'aliases = { m = "m" }', "model 'm' is offered twice"),
        ("port = 70000\n" + MINIMAL, "port: "),
        ('client_keys_env = ["NOT_SET_ANYWHERE"]\n' + MINIMAL, "variable NOT_SET_ANYWHERE is not set"),
        ("port = ", "not TOML"),
    ],
)
def test_errors_name_the_key_and_the_remedy(tmp_path: Path, text: str, complaint: str) -> None:
    assert complaint in complaints(tmp_path, text)


def test_complaints_quote_no_key(tmp_path: Path) -> None:
    assert "hidden" not in complaints(tmp_path, MINIMAL + 'key = "hidden"\nkey_env = "K"')
    assert "hidden" not in complaints(tmp_path, MINIMAL + 'keys = "hidden"')


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "none.toml")


def test_routes() -> None:
    table = ChannelTable((Channel(name="c", url="http://h", models=("m",), aliases={"a": "m"}),))
    assert table.route("a").model == table.route("m").model == "m"
    assert table.names() == {"m": "c", "a": "c"}
    with pytest.raises(GatewayError) as caught:
        table.route("x")
    assert caught.value.status == 404


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:1/v1", True),
        ("http://127.8.0.1", True),
        ("http://[::1]:1", True),
        ("http://localhost:1", True),
        ("http://10.0.0.1", False),
        ("https://example.org/127.0.0.1", False),
    ],
)
def test_loopback(url: str, loopback: bool) -> None:
    assert is_loopback(url) is loopback
