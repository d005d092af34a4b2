"""Tool definitions and tool_choice.

Definitions keep their order; a schema goes through as it came, key order and number spelling included. A tool
marked ``defer_loading`` stays out of the static list, so that its arrival moves nothing: its definition enters the
prompt as text of the tool result that refers to it (see ``content``). Tools that Anthropic runs itself have no
schema to pass on and are refused.
"""

from typing import Any

from ..errors import BadRequest
from .checks import Json, a_boolean, a_list, a_string, an_object, required


def _definition(tool: Json, place: str) -> Json:
    if tool.get("type") not in (None, "custom"):
        raise BadRequest(
            f"{place}.type", "tools that run at Anthropic cannot be offered by an openai-chat upstream; remove it"
        )
    function: Json = {"name": a_string(required(tool, "name", f"{place}."), f"{place}.name")}
    if tool.get("description") is not None:
        function["description"] = a_string(tool["description"], f"{place}.description")
    schema = required(tool, "input_schema", f"{place}.")
    function["parameters"] = an_object(schema, f"{place}.input_schema")
    if tool.get("strict") is not None:
        function["strict"] = a_boolean(tool["strict"], f"{place}.strict")
    return {"type": "function", "function": function}


def split_tools(tools: Any) -> tuple[list[Json], dict[str, Json]]:
    """The static chat tools in order, and the deferred ones by name."""
    static: list[Json] = []
    deferred: dict[str, Json] = {}
    for index, item in enumerate(a_list(tools, "tools")):
        place = f"tools.{index}"
        tool = an_object(item, place)
        definition = _definition(tool, place)
        if tool.get("defer_loading") is True:
            deferred[definition["function"]["name"]] = definition
        else:
            static.append(definition)
    return static, deferred


_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def choice_fields(choice: Any, *, has_tools: bool) -> Json:
    """``tool_choice`` and ``parallel_tool_calls`` for a chat body.

    Without tools, ``auto`` and ``none`` say nothing and are left out; engines refuse them then.
    """
    wanted = an_object(choice, "tool_choice")
    kind = wanted.get("type")
    fields: Json = {}
    if kind == "tool":
        name = a_string(required(wanted, "name", "tool_choice."), "tool_choice.name")
        fields["tool_choice"] = {"type": "function", "function": {"name": name}}
    elif isinstance(kind, str) and kind in _CHOICES:
        if has_tools or kind == "any":
            fields["tool_choice"] = _CHOICES[kind]
    else:
        raise BadRequest("tool_choice.type", "must be auto, any, tool or none")
    serial = wanted.get("disable_parallel_tool_use")
    if serial is not None and a_boolean(serial, "tool_choice.disable_parallel_tool_use") and has_tools:
        fields["parallel_tool_calls"] = False
    return fields
