"""Client-shaped conversations: deterministic request bodies with the parts, order and sizes of real coding clients.

Plain data in, plain data out. Nothing here sends a request or knows what a gateway or a rule is.
"""

from .aider import AiderSession
from .attribution import ATTRIBUTION_PREFIX, body_cch, prompt_suffix, sealed
from .chat_coding import ChatCodingSession
from .claude_code import ClaudeCodeSession
from .clients import CLIENTS, Client
from .events import Compact, Event, LoadTools, Note, Request, Resume, Retry, Side, SubAgents, Turn, play
from .filler import filler
from .profile import CLAUDE_CODE, OPENCODE, ClientProfile, load
from .script import Fragment, StepKind
from .session import DEFAULT_MODEL, PROBE_MAX_TOKENS, Session
from .sizing import Shape
from .text_only import dual_text_request
from .tool_definitions import tool_definition

__all__ = [
    "ATTRIBUTION_PREFIX",
    "CLAUDE_CODE",
    "CLIENTS",
    "DEFAULT_MODEL",
    "OPENCODE",
    "PROBE_MAX_TOKENS",
    "AiderSession",
    "ChatCodingSession",
    "ClaudeCodeSession",
    "Client",
    "ClientProfile",
    "Compact",
    "Event",
    "Fragment",
    "LoadTools",
    "Note",
    "Request",
    "Resume",
    "Retry",
    "Session",
    "Shape",
    "Side",
    "StepKind",
    "SubAgents",
    "Turn",
    "body_cch",
    "dual_text_request",
    "filler",
    "load",
    "play",
    "prompt_suffix",
    "sealed",
    "tool_definition",
]
