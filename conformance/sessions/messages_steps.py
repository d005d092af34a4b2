"""A conversation's steps as messages of Anthropic's dialect, in the forms Claude Code sends."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from .script import LoadStep, NoteStep, ParallelStep, Step, TextStep, ToolStep

MARK: Final = {"type": "ephemeral"}


def message(role: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": role, "content": content}


def text_block(text: str, mark: bool = False) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": text}
    if mark:
        block["cache_control"] = MARK
    return block


def step_messages(step: Step) -> list[dict[str, Any]]:
    """The messages of one step; every content is a list of blocks."""
    if isinstance(step, NoteStep):
        return [message(step.role, [text_block(step.text)])]
    if isinstance(step, TextStep):
        return [
            message("assistant", [*_thinking(step.thinking), text_block(step.answer)]),
            message("user", [text_block(step.question)]),
        ]
    if isinstance(step, LoadStep):
        found = [{"type": "tool_reference", "tool_name": name} for name in step.loaded]
        result = {"type": "tool_result", "tool_use_id": step.call.call_id, "content": found}
        return [message("assistant", [_use(step.call)]), message("user", [result, text_block(step.note)])]
    calls, results = (step.calls, step.results) if isinstance(step, ParallelStep) else ((step,), (step,))
    thoughts = _thinking("" if isinstance(step, ParallelStep) else step.thinking)
    return [
        message("assistant", [*thoughts, *(_use(call) for call in calls)]),
        message("user", [_result(call) for call in results]),
    ]


def _thinking(text: str) -> list[dict[str, Any]]:
    if not text:
        return []
    # A signature is opaque to everybody but its maker; this one is as stable as its text.
    signature = hashlib.sha256(f"signature/{text}".encode()).hexdigest()
    return [{"type": "thinking", "thinking": text, "signature": signature}]


def _use(call: ToolStep) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.call_id, "name": call.tool, "input": call.arguments}


def _result(call: ToolStep) -> dict[str, Any]:
    content: Any = [text_block(call.result)] if call.listed else call.result
    result: dict[str, Any] = {"tool_use_id": call.call_id, "type": "tool_result", "content": content}
    if call.is_error is not None:
        result["is_error"] = call.is_error
    return result
