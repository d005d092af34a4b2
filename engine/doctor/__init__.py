"""The doctor: known traps in flags, model, log and metrics, and why a host tier stores and never loads."""

from engine.doctor.command import add_command

__all__ = ["add_command"]
