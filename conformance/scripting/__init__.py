"""Scripted upstream answers as plain data: what the recorder says in the engine's place, and how it breaks."""

from conformance.scripting.script import End, Forms, Hold, Script, ScriptedReply, Wait
from conformance.scripting.table import ScriptTable

__all__ = ["End", "Forms", "Hold", "Script", "ScriptTable", "ScriptedReply", "Wait"]
