"""What a fault is."""

from dataclasses import dataclass

from ..seams import Mutations


@dataclass(frozen=True)
class Fault:
    """One named mutation of the right behaviour.

    ``breaks`` are the ids of the rules it breaks where every vantage point is given; behind a template that renders
    tools before the system text it also breaks ``breaks_if_tools_first``, in sessions with parallel calls also
    ``breaks_if_parallel``, and where the gateway is restarted in between also ``breaks_across_restart``.
    ``field_example`` says where the kind was met. ``mutations`` is made anew for every request.
    """

    name: str
    summary: str
    breaks: frozenset[str]
    field_example: str
    mutations: type[Mutations]
    breaks_if_tools_first: frozenset[str] = frozenset()
    breaks_if_parallel: frozenset[str] = frozenset()
    breaks_across_restart: frozenset[str] = frozenset()
