"""Traps that stand in the flags: read off a launch and a model's groups, without an engine.

The behaviour by version was read off vLLM's sources and run on CPU with 0.27.1, 0.29.0, 0.32.0 and, its scheduler
alone, 0.33.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engine.doctor.finding import Finding, Weight, family
from engine.doctor.groups import Group, drafts, drafts_annotated
from engine.doctor.launch import Launch
from engine.wording import size

Groups = tuple[Group, ...]
Version = tuple[int, int] | None
Check = Callable[[Launch, Groups, Version], Iterator[Finding]]

SPARSE_SINCE = (0, 30)
"""From here on a window's group keeps only the tail of one boundary, unless a retention interval is set."""

MEASURED = (0, 33)
"""The last version of which any of this is known."""

RETENTION = "--prefix-cache-retention-interval"


def lint(launch: Launch, groups: Groups, version: str | None) -> list[Finding]:
    """All findings on a launch, the worst first."""
    found = [finding for check in CHECKS for finding in check(launch, groups, family(version))]
    order = list(Weight)
    return sorted(found, key=lambda finding: order.index(finding.weight))


@dataclass(frozen=True)
class Veto:
    """Groups of one shape that find nothing, so that all groups get nothing."""

    numbers: tuple[int, ...]
    group: Group
    why: str
    upstream: tuple[int, ...]

    @property
    def who(self) -> str:
        """`group 1 (sliding window 129)`."""
        one = len(self.numbers) == 1
        return f"group{'' if one else 's'} {', '.join(map(str, self.numbers))} ({self.group})"


def vetoing(launch: Launch, groups: Groups, version: Version) -> list[Veto]:
    """Who can find nothing and why, by the model's groups in vLLM's order."""
    chunk = launch.chunk_tokens
    windows = {group: tuple(n for n, other in enumerate(groups) if other == group) for group in groups if group.window}
    if not launch.has_tier or not windows or launch.switch("disable-hybrid-kv-cache-manager"):
        return []
    retained = launch.number("prefix-cache-retention-interval")
    if (retained and chunk and retained <= chunk) or (version is not None and version < SPARSE_SINCE):
        return []
    found = [
        Veto(numbers, group, _one_too_few(group.window or 0, chunk), (51771,))
        for group, numbers in windows.items()
        if chunk and chunk > 1 and (group.window or 0) % chunk == 1
    ]
    if not found and drafts_annotated(launch):
        drafted = [group for group in windows if group.draft]
        why = (
            "the drafter's group asks for one chunk more than its window's tail has"
            if drafted
            else "the draft group drops a chunk from the boundary, and the window's tail was stored for the boundary "
            "before that"
        )
        found = [Veto(windows[group], group, why, (51761, 52735)) for group in drafted or windows]
    return found


def _one_too_few(window: int, chunk: int) -> str:
    return (
        f"{window} mod {chunk} = 1: the store keeps {(window - 1) // chunk} chunks, the lookup asks for "
        f"{-(-window // chunk)}"
    )


def _veto(launch: Launch, groups: Groups, version: Version) -> Iterator[Finding]:
    for veto in vetoing(launch, groups, version):
        known = "" if version else ", on vLLM 0.30 and later"
        yield Finding(
            "group-veto",
            Weight.TRAP if version and version <= MEASURED else Weight.DOUBT,
            f"{veto.who} veto{'es' if len(veto.numbers) == 1 else ''} every load{known}: {veto.why}. One group without "
            "hits makes the lookup 0 for all",
            f"{RETENTION} {launch.chunk_tokens or launch.block_size or 'BLOCK_SIZE'} restores loads, at more storage",
            veto.upstream,
        )


def _draft_in_doubt(launch: Launch, groups: Groups, version: Version) -> Iterator[Finding]:
    known = version is not None and version < SPARSE_SINCE
    windows = any(group.window for group in groups)
    retained = launch.number("prefix-cache-retention-interval")
    if launch.has_tier and windows and drafts(launch) and not (drafts_annotated(launch) or retained or known):
        yield Finding(
            "draft-window",
            Weight.DOUBT,
            "windows, a draft model and an offload tier: if vLLM marks the draft's group as one (its log says `draft "
            "attention groups ... detected`), the tier stores and never loads; if it does not, it loads",
            f"`prefixproof-engine probe` tells; {RETENTION} restores loads",
            (51761,),
        )


def _draft_by_version(launch: Launch, groups: Groups, version: Version) -> Iterator[Finding]:
    del groups
    if not (launch.has_tier and drafts(launch)) or version is None or version >= SPARSE_SINCE:
        return
    if version >= (0, 27):
        yield Finding(
            "draft-residue",
            Weight.DOUBT,
            "with a draft group, vLLM 0.27 to 0.29 loads nothing for some prompt lengths (prompt mod chunk below the "
            "window), on models with windows",
            "probe several lengths: `prefixproof-engine probe`; or leave speculation out while the tier is in use",
            (51761,),
        )
    elif version >= (0, 25):
        yield Finding(
            "group-veto",
            Weight.TRAP,
            "with speculation, vLLM 0.25 and 0.26 take every group for a draft group where none is annotated, and "
            "drop the last chunk of each: on models with windows the tier stores and never loads",
            "leave speculation out, or use vLLM 0.27 or later",
            (47890, 47891, 48911),
        )


def _unknown_groups(launch: Launch, groups: Groups, version: Version) -> Iterator[Finding]:
    del version
    if launch.has_tier and not groups and launch.switch("disable-hybrid-kv-cache-manager") is not True:
        speculation = " with speculation" if drafts(launch) else ""
        yield Finding(
            "groups-unknown",
            Weight.DOUBT,
            f"an offload tier{speculation}, and the model's KV groups are not known: whether a group vetoes loads "
            "depends on them",
            "give --model-config config.json, or ask vLLM itself: `prefixproof-engine prove`",
        )


def _details(launch: Launch, groups: Groups, version: Version) -> Iterator[Finding]:
    del groups, version
    if not launch.switch("enable-prompt-tokens-details", default=False):
        yield Finding(
            "details-off",
            Weight.TRAP,
            "usage carries no cached tokens: gateways and clients see none, whatever the cache does",
            "--enable-prompt-tokens-details",
        )


def _caching(launch: Launch, groups: Groups, version: Version) -> Iterator[Finding]:
    del groups, version
    if launch.switch("enable-prefix-caching") is False:
        yield Finding(
            "caching-off",
            Weight.TRAP,
            "prefix caching is off: neither tier is ever read",
            "drop --no-enable-prefix-caching",
        )


def _sizes(launch: Launch, groups: Groups, version: Version) -> Iterator[Finding]:
    del version
    extra, block = launch.extra, launch.block_size
    if "block_size" in extra and "blocks_per_chunk" in extra:
        yield Finding(
            "chunk-twice",
            Weight.TRAP,
            "block_size and blocks_per_chunk are both given in kv_connector_extra_config: vLLM does not start",
            "give one of them",
        )
    chunk = extra.get("block_size")
    if isinstance(chunk, int) and block and chunk % block:
        yield Finding(
            "chunk-multiple",
            Weight.TRAP,
            f"an offload block of {chunk} tokens is no multiple of the pool's {block}: vLLM does not start",
            f"{-(-chunk // block) * block}, or blocks_per_chunk",
        )
    if isinstance(chunk, int) and len(groups) > 1:
        yield Finding(
            "chunk-hybrid",
            Weight.DOUBT,
            "block_size in kv_connector_extra_config asserts that all groups have blocks of one size",
            "blocks_per_chunk has no such condition",
        )
    retained, unit = launch.number("prefix-cache-retention-interval"), block
    if retained and unit and retained % unit:
        yield Finding(
            "retention-multiple",
            Weight.TRAP,
            f"a retention interval of {retained} is no multiple of the block size {unit}: vLLM does not start",
            f"{-(-retained // unit) * unit}",
        )


def _retention(launch: Launch, groups: Groups, version: Version) -> Iterator[Finding]:
    windows = any(group.window for group in groups)
    if launch.has_tier and windows and not launch.number("prefix-cache-retention-interval"):
        if version is not None and version < SPARSE_SINCE:
            return
        yield Finding(
            "retention-sparse",
            Weight.NOTE,
            "windows keep only the tail of one boundary: the first branch off a shared prefix finds nothing",
            f"{RETENTION} at a multiple of the block size, at more storage",
        )


def _prompt_only(launch: Launch, groups: Groups, version: Version) -> Iterator[Finding]:
    del groups
    known = version is None or version >= (0, 23)
    if launch.has_tier and known and launch.extra.get("offload_prompt_only", True) is not False:
        yield Finding(
            "prompt-only",
            Weight.NOTE,
            "only prompts are stored: a follow-up turn computes the answer before it again, and what was answered",
            "offload_prompt_only=false in kv_connector_extra_config, where answers come back as they were generated",
        )


def _size_door(launch: Launch, groups: Groups, version: Version) -> Iterator[Finding]:
    del groups, version
    if "kv-offloading-size" in launch.flags:
        yield Finding(
            "same-connector",
            Weight.NOTE,
            "--kv-offloading-size is another door to the same OffloadingConnector, with the same lookup: no remedy for "
            "a tier that never loads",
        )


def _capacity(launch: Launch, groups: Groups, version: Version) -> Iterator[Finding]:
    del groups, version
    held = launch.tier_bytes
    if launch.has_tier and held is not None and held < 2**30:
        yield Finding(
            "tier-small",
            Weight.DOUBT,
            f"the tier holds {size(held)}: smaller than what is "
            f"sent between two uses "
            "of a prefix, it stores and never loads by plain LRU",
        )


def _cumem(launch: Launch, groups: Groups, version: Version) -> Iterator[Finding]:
    del groups, version
    if launch.has_tier and (launch.switch("enable-cumem-allocator") or launch.switch("enable-sleep-mode")):
        yield Finding(
            "cumem",
            Weight.DOUBT,
            "the cumem allocator is on: the pool's pages are mapped by hand, which copies to pinned memory have met "
            "trouble with. It was on in the incident and was not its cause",
            "leave it out for one run, to rule it out",
        )


def _hybrid_off(launch: Launch, groups: Groups, version: Version) -> Iterator[Finding]:
    del version
    if launch.switch("disable-hybrid-kv-cache-manager") and any(group.window for group in groups):
        yield Finding(
            "hybrid-off",
            Weight.NOTE,
            "the hybrid KV-cache manager is off: windows are kept "
            "as full attention, "
            "which rules a veto of theirs out and takes more of the pool",
        )


CHECKS: tuple[Check, ...] = (
    _details,
    _caching,
    _veto,
    _draft_in_doubt,
    _draft_by_version,
    _unknown_groups,
    _sizes,
    _retention,
    _prompt_only,
    _size_door,
    _capacity,
    _cumem,
    _hybrid_off,
)
