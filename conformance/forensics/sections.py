"""Where in the prompt a constant ends, by the lengths of parts, and which part in front of it varies."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.forensics.granularity import Granularity
from conformance.forensics.parts import FEWEST, PartTable, PathSeen

HEAD_TOKENS = 64
"""Room for what a template puts around parts and for the constant head of the varying part (about 32 tokens of an
attribution text)."""

_ATTRIBUTION_BYTES = range(70, 131)
"""Claude Code's attribution text is 84 to 91 bytes long in the versions seen; newer ones add keys."""


@dataclass(frozen=True)
class Boundary:
    """What stands before `path` when a template renders in `order`: about `tokens`; `fits` the constant or not."""

    order: str
    path: str
    tokens: int
    fits: bool


def front_in_order(table: PartTable, order: str) -> list[PathSeen]:
    """The parts in front as a template renders them: `tools first` (DeepSeek) or `system first` (Qwen)."""
    system = [s for p, s in table.paths.items() if p.startswith("system")]
    tools = [s for p, s in table.paths.items() if p == "tools"]
    messages = [s for p, s in table.paths.items() if p.startswith("messages")]
    return [*tools, *system, *messages] if order == "tools first" else [*system, *tools, *messages]


def culprit(table: PartTable) -> PathSeen | None:
    """The first part in front that varies from request to request though what stands behind it could be reused.

    Within conversations any part in front counts: the conversation itself stands behind it. Where no conversation can
    be followed only system text and tools do: a text to work on in front of a fixed question is nobody's fault.
    """
    front = front_in_order(table, "system first")
    for i, seen in enumerate(front):
        if not seen.varies:
            continue
        if seen.pairs >= FEWEST:
            return seen
        is_head = seen.path.startswith(("system", "tools"))
        if is_head and any(later.stable for later in front[i + 1 :] if later.path.startswith(("system", "tools"))):
            return seen
    return None


def boundaries(table: PartTable, path: str, count: int, granularity: Granularity) -> list[Boundary]:
    """Both orders' boundary in front of `path`, and whether `count` is where it cuts."""
    slack = 2 * granularity.safe + HEAD_TOKENS
    found = []
    for order in ("tools first", "system first"):
        tokens = 0.0
        for seen in front_in_order(table, order):
            if seen.path == path:
                break
            tokens += table.tokens(seen.path)
        # One ratio of bytes to tokens for JSON and prose alike is good to about a fifth.
        room = slack if table.is_counted() else slack + 0.2 * tokens
        found.append(Boundary(order, path, round(tokens), abs(count - tokens) <= room))
    return found


def varying_field(seen: PathSeen, client: str) -> tuple[str | None, str | None]:
    """(the field that varies, how sure that is); (None, None) where the capture does not say."""
    names = seen.varying_fields()
    steady = seen.steady_fields()
    if names:
        beside = f"; {', '.join(steady)} beside it did not change" if steady else ""
        return ", ".join(names), f"by the hashes of the attribution text's fields{beside}"
    is_head = seen.path in ("system[0]", "system.line[0]")
    if is_head and client.lower().startswith("claude") and seen.largest in _ATTRIBUTION_BYTES and not seen.fields:
        return "cch", (
            f"by its place, its {seen.largest} bytes and the client: they fit Claude Code's attribution text, whose "
            "`cch` changes with every request; the capture has no hashes of its fields, so this is a fit, not a proof"
        )
    return None, None
