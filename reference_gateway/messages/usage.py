"""Usage: an OpenAI-style count as an Anthropic one.

OpenAI's ``prompt_tokens`` includes cached tokens; Anthropic's total is ``input + cache_read + cache_creation``. With
the channel's ``anthropic_messages_exclude_cache`` the parts are told apart and their sum is the upstream's
``prompt_tokens``. Unknown is not zero: a part the upstream did not report is absent from the answer.
"""

from typing import Any

from ..counts import Counts
from .checks import Json


def messages_usage(counts: Counts, *, exclude_cache: bool) -> Json:
    """The final usage of an answer.

    Required fields the upstream never reported are 0, the only integer that claims nothing.
    """
    prompt = counts.prompt or 0
    read = None if counts.cached is None else min(counts.cached, prompt)
    created = None if counts.created is None else min(counts.created, prompt - (read or 0))
    usage: Json = {"input_tokens": prompt}
    if exclude_cache:
        usage["input_tokens"] = prompt - (read or 0) - (created or 0)
    if created is not None:
        usage["cache_creation_input_tokens"] = created
    if read is not None:
        usage["cache_read_input_tokens"] = read
    usage["output_tokens"] = counts.completion or 0
    return usage


def prompt_estimate(received: bytes) -> int:
    """A guess at a prompt's tokens before the upstream has counted them: half its bytes, so never too low."""
    return max(1, len(received) // 2)


def start_usage(received: bytes, *, exclude_cache: bool) -> Json:
    """The usage in ``message_start``: zeros, or with the switch off the estimate the incident describes."""
    return {"input_tokens": 0 if exclude_cache else prompt_estimate(received), "output_tokens": 0}


def stop_reason(finish: Any, stopped_by: Any, *, stops: list[str], has_calls: bool) -> tuple[str, str | None] | None:
    """``stop_reason`` and ``stop_sequence`` from ``finish_reason`` and vLLM's ``stop_reason``.

    None if the upstream says that it did not finish (``abort``, ``error`` and the like).
    """
    if finish == "length":
        return "max_tokens", None
    if finish == "content_filter":
        return "refusal", None
    if finish in ("tool_calls", "function_call") or (finish == "stop" and has_calls):
        # vLLM reports "stop" for a call that tool_choice forced.
        return "tool_use", None
    if finish in ("stop", "eos", "stop_sequence"):
        if isinstance(stopped_by, str) and stopped_by in stops:
            return "stop_sequence", stopped_by
        return "end_turn", None
    return None
