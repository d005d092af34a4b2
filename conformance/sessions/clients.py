"""Every client whose requests were recorded, by name: how to start a session of it, and what happens in its day."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from .aider import AIDER, AiderSession
from .chat_coding import ChatCodingSession
from .claude_code import ClaudeCodeSession
from .events import Compact, Event, LoadTools, Note, Request, Resume, Retry, Side, SubAgents, Turn, play
from .profile import CLAUDE_CODE, OPENCODE, ClientProfile, load
from .session import Session
from .tool_definitions import Dialect


@dataclass(frozen=True, slots=True)
class Client:
    """One client version.

    `start` makes a session of it, in the forms it really sends; it takes `seed` and `salt` and whatever else the
    session's class takes (`shape`, `base_bytes`, `model`, ...). `script` is a day in small with everything the client
    was seen to do. `appends` is False where turns do not only append.
    """

    name: str
    start: Callable[..., Session]
    script: tuple[Event, ...]
    appends: bool = True

    @property
    def profile(self) -> ClientProfile:
        return load(self.name)

    @property
    def dialect(self) -> Dialect:
        return self.profile.dialect

    def play(
        self, *, seed: str, salt: str, script: tuple[Event, ...] | None = None, **session: Any
    ) -> Iterator[Request]:
        """The requests of a day (default: `script`), the same for the same arguments."""
        return play(self.start(seed=seed, salt=salt, **session), self.script if script is None else script)


def _claude_code(name: str, *, before: tuple[Event, ...] = (), after: tuple[Event, ...] = ()) -> Client:
    forms = load(name).forms
    start = partial(ClaudeCodeSession, client=name, thinking=forms.thinking, collapse=forms.collapse)
    turns = (Turn(0), Turn(900, "tool"), Retry(), Turn(1400, "parallel"), Turn(600, "text"))
    return Client(name, start, (*before, *turns, *after))


def _chat(name: str, *, before: tuple[Event, ...] = (), after: tuple[Event, ...] = ()) -> Client:
    start = partial(ChatCodingSession, client=name, thinking=load(name).forms.thinking)
    turns = (Turn(0), Turn(900, "tool"), Turn(600, "text"), Resume(), Turn(800, "tool"))
    return Client(name, start, (*before, *turns, *after))


_TITLE: Final = Side("title")
_COUNT: Final = Side("count_tokens")

_ALL: Final = (
    _claude_code("claude-code-2.0.77", before=(_TITLE,), after=(Side("topic"), SubAgents())),
    _claude_code("claude-code-2.1.50", after=(Side("topic"),)),
    _claude_code("claude-code-2.1.116", before=(_TITLE,), after=(SubAgents(), _COUNT, Compact(), Turn(900, "tool"))),
    _claude_code(CLAUDE_CODE, before=(_TITLE,), after=(SubAgents(), _COUNT, Compact(), Turn(900, "tool"))),
    _claude_code("claude-code-2.1.220"),
    _claude_code(
        "claude-code-2.1.332",
        after=(LoadTools(), Turn(900, "tool"), Note(1600), Turn(500, "tool"), SubAgents(), _COUNT),
    ),
    _chat(OPENCODE, before=(_TITLE,), after=(SubAgents(),)),
    _chat("reasonix-1.38.11"),
    _chat("qwen-code-0.15.10"),
    _chat("pi-0.73.1"),
    Client(AIDER, AiderSession, (Turn(0), Turn(700), Turn(900), Turn(500)), appends=False),
)

CLIENTS: Final[dict[str, Client]] = {client.name: client for client in _ALL}
"""Client name -> client: "claude-code-2.1.332", "opencode-1.18.33", ..."""
