"""One small conversation in both dialects with the same texts, for comparing totals between entries."""

from __future__ import annotations

from typing import Any, Final

from .filler import filler, salted
from .session import DEFAULT_MODEL, PROBE_MAX_TOKENS
from .sizing import check_salt

LEAST_BYTES: Final = 512


def dual_text_request(
    salt: str,
    n_bytes: int,
    *,
    seed: str = "dual",
    model: str = DEFAULT_MODEL,
    max_tokens: int = PROBE_MAX_TOKENS,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A `/v1/messages` body and a `/v1/chat/completions` body of the same conversation, without `stream`.

    System text, question, answer, question: exactly `n_bytes` bytes of text together, all in string form and without
    tools, so that a right translation of the first has the second's messages. `salt` opens the system text and the
    first question. Raises ValueError below 512 bytes.
    """
    check_salt(salt)
    if n_bytes < LEAST_BYTES:
        raise ValueError(f"a text-only request needs at least {LEAST_BYTES} bytes, got {n_bytes}")
    quarter = n_bytes // 4
    system = salted(filler(f"{seed}/system", n_bytes - 3 * quarter), salt)
    turns = [
        {"role": "user", "content": salted(filler(f"{seed}/question", quarter), salt)},
        {"role": "assistant", "content": filler(f"{seed}/answer", quarter)},
        {"role": "user", "content": filler(f"{seed}/second question", quarter)},
    ]
    messages_body = {
        "model": model,
        "messages": [dict(turn) for turn in turns],
        "system": system,
        "max_tokens": max_tokens,
    }
    chat_body = {
        "model": model,
        "max_tokens": max_tokens,
        "messages": [{"role": "system", "content": system}, *turns],
    }
    return messages_body, chat_body
