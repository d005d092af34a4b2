"""The gateway's configuration: channels, their switches and the server's limits, as read from TOML."""

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

Dialect = Literal["openai-chat", "anthropic"]


class ConfigError(Exception):
    """The configuration cannot be used. ``lines`` name the key at fault and say what to do, one each."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _from_environment(variable: str) -> SecretStr:
    value = os.environ.get(variable, "")
    if not value:
        raise ValueError(f"the environment variable {variable} is not set; export it, or use another name")
    return SecretStr(value)


class Channel(_Table):
    """A route to one upstream.

    ``url`` may end in ``/v1`` or not; requests go to ``<url>/v1/chat/completions`` and its neighbours.
    ``models`` are the upstream's own names; ``aliases`` maps further names to one of them (an alias is only a
    name: nothing else of a request depends on it). The key is a literal (``key``) or the name of an environment
    variable (``key_env``); it replaces whatever the client sent.

    ``replicas`` are further addresses of the same upstream; ``routing`` keeps a session on one of them, or picks
    one at random for each request, which no cache survives.

    The two switches do what the incident's remedies do, and only for Messages clients of an ``openai-chat``
    upstream: ``strip_anthropic_billing_header`` keeps the attribution text out of the prompt;
    ``anthropic_messages_exclude_cache`` counts cached tokens beside ``input_tokens`` instead of inside.
    """

    name: str = Field(min_length=1)
    url: str
    dialect: Dialect = "openai-chat"
    models: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    aliases: dict[str, str] = Field(default_factory=dict)
    key: SecretStr | None = None
    key_env: str | None = None
    strip_anthropic_billing_header: bool = False
    anthropic_messages_exclude_cache: bool = False
    replicas: tuple[str, ...] = ()
    routing: Literal["session", "random"] = "session"
    connect_timeout_s: float = Field(default=10.0, gt=0)
    read_timeout_s: float = Field(default=600.0, gt=0)

    @field_validator("replicas")
    @classmethod
    def _check_replicas(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(cls._check_url(url) for url in urls)

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("give the upstream as http://HOST:PORT or https://HOST, with or without /v1")
        if parts.query or parts.fragment:
            raise ValueError("leave out the query and fragment; only scheme, host, port and path are used")
        return url

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if self.key is not None and self.key_env is not None:
            raise ValueError("set key or key_env, not both")
        if self.key_env is not None:
            _from_environment(self.key_env)
        for alias, real in self.aliases.items():
            if real not in self.models:
                raise ValueError(
                    f"alias {alias!r} points to {real!r}, which is not in models; add it there or correct the alias"
                )
        return self

    @property
    def root(self) -> str:
        """The upstream's address without a trailing slash and without ``/v1``."""
        return self.url.rstrip("/").removesuffix("/v1").rstrip("/")

    @property
    def secret(self) -> str | None:
        """The key to send upstream, if there is one."""
        if self.key_env is not None:
            return _from_environment(self.key_env).get_secret_value()
        return self.key.get_secret_value() if self.key is not None else None


class GatewayConfig(_Table):
    """Everything the gateway needs to run.

    ``client_keys`` (literals) and ``client_keys_env`` (names of environment variables) list the keys clients may
    use; with none, every client is let in. ``max_body_bytes`` bounds a request's body. ``usage_log`` is a file
    that gets one JSON line per request with the upstream's raw usage.
    """

    channels: tuple[Channel, ...] = Field(min_length=1)
    host: str = "127.0.0.1"
    port: int = Field(default=3000, ge=0, le=65535)
    max_body_bytes: int = Field(default=32 * 1024 * 1024, gt=0)
    client_keys: tuple[SecretStr, ...] = ()
    client_keys_env: tuple[str, ...] = ()
    usage_log: Path | None = None

    @model_validator(mode="after")
    def _check_unique(self) -> Self:
        seen: dict[str, str] = {}
        names: set[str] = set()
        for channel in self.channels:
            if channel.name in names:
                raise ValueError(f"two channels are named {channel.name!r}; rename one")
            names.add(channel.name)
            for model in (*channel.models, *channel.aliases):
                if model in seen:
                    where = f"channels {seen[model]!r} and {channel.name!r}"
                    raise ValueError(f"model {model!r} is offered twice ({where}); remove or rename one")
                seen[model] = channel.name
        for variable in self.client_keys_env:
            _from_environment(variable)
        return self

    @property
    def accepted_keys(self) -> tuple[str, ...]:
        """The client keys to accept; empty means that none is asked for."""
        literal = (key.get_secret_value() for key in self.client_keys)
        return (*literal, *(_from_environment(name).get_secret_value() for name in self.client_keys_env))


_ADVICE = {
    "missing": "is missing; add it",
    "too_short": "is empty; give at least one",
    "string_too_short": "is empty; give it a value",
}


def _explain(error: dict[str, Any]) -> str:
    place = ".".join(str(part) for part in error["loc"])
    kind = error["type"]
    if kind == "extra_forbidden":
        table = Channel if place.startswith("channels.") else GatewayConfig
        return f"{place}: unknown key; the keys here are {', '.join(table.model_fields)}"
    message = _ADVICE.get(kind) or str(error["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def load_config(path: str | Path) -> GatewayConfig:
    """Read a TOML file.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or a key is missing, unknown or wrong.
    """
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read ({error.strerror}); give the path of a channels file"]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: not TOML: {error}"]) from error
    try:
        return GatewayConfig.model_validate(data)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False, include_context=False)
        raise ConfigError([f"{path}: {_explain(dict(detail))}" for detail in details]) from error
