"""Everything the suite observed at one entry. Each observation is sent once, when a judgement first asks for it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from functools import cached_property

from conformance.evidence.conversation import Extra, Sent
from conformance.evidence.hotpair import Arm, run_arms
from conformance.evidence.qualify import CacheState, Qualification, granularity, is_hit, qualify
from conformance.evidence.thresholds import Thresholds
from conformance.observe.compaction import Compaction, play_until_compaction
from conformance.observe.counting import Counted, count_and_send
from conformance.observe.forms import all_forms, identical_requests
from conformance.observe.lab import WireLab
from conformance.observe.none_hit import why_few_hit, why_none_hit
from conformance.observe.novel import longer_prompts, novel_prompts
from conformance.observe.observations import Arms, DialectPair, Streams, ToolArms
from conformance.observe.owed_usage import counts_streams
from conformance.observe.own_texts import OwnTexts
from conformance.observe.plan import Plan
from conformance.observe.restarted import AcrossRestart, Restart, SentBefore, send_after, send_before, send_many_tools
from conformance.observe.scripted import ScriptedUpstream
from conformance.observe.tool_arms import send_tool_arms
from conformance.observe.translation_probes import TranslationProbes
from conformance.observe.trouble import Trouble
from conformance.observe.under_load import LoadOf, no_load
from conformance.verdicts import Entry
from conformance.wire.engine_version import EngineSaid
from conformance.wire.exchange import Exchange


class Observed:
    """One entry of the target, as far as it was looked at."""

    def __init__(
        self,
        *,
        entry: Entry,
        lab: WireLab,
        plan: Plan,
        thresholds: Thresholds,
        rng: random.Random,
        dialects: Callable[[], DialectPair | None],
        pause_s: float = 0.0,
        needs: str = "needs a recorder: --upstream-listen HOST:PORT with --engine URL",
        engine_lab: Callable[[], WireLab | None] = lambda: None,
        native_lab: Callable[[], WireLab | None] = lambda: None,
        other: Callable[[], Observed | None] = lambda: None,
        scripted: ScriptedUpstream | None = None,
        patience_s: float = 1.0,
        engine: Callable[[], EngineSaid] = EngineSaid,
        load: LoadOf = no_load,
        restart: Restart | None = None,
    ) -> None:
        self.entry = entry
        self.lab = lab
        self.plan = plan
        self.thresholds = thresholds
        self.pause_s = pause_s
        self._engine_lab = engine_lab
        self.needs_recorder = needs
        self._native_lab = native_lab
        self._other = other
        self.scripted = scripted  # None: no recorder answers in the engine's place
        self._patience_s = patience_s
        self._engine = engine
        self.load_run = load  # one run of the load generator through this entry, made when it is first asked for
        self._restart = restart
        self._before: tuple[SentBefore, ...] = ()
        self._rng = rng
        self._dialects = dialects
        self._arms: Arms | None = None
        self._own_texts = OwnTexts(lab, self._of_other_parts)

    @property
    def sees_upstream(self) -> bool:
        """True when a recorder stands between the target and the engine and saw the suite's requests."""
        return self.lab.sees_upstream

    @cached_property
    def qualification(self) -> Qualification:
        found = qualify(self.lab, self.thresholds.qualify, probes=self.plan.probes, scales=self.plan.scales)
        self.lab.tokens_per_byte = found.tokens_per_byte
        return found

    @property
    def exchanges(self) -> list[Exchange]:
        """Everything sent to this entry so far."""
        return self.lab.exchanges

    @property
    def watched(self) -> str:
        """Over how many seconds repeated prompts were sent, and what that leaves unseen from the client's side."""
        spans = [c.exchanges[-1].sent_at - c.exchanges[0].sent_at for c in self.lab.conversations if c.exchanges]
        longest = max(spans, default=0.0)
        return (
            f"repeated prompts were observed over {longest:.{0 if longest >= 1 else 1}f} s: what changes slower than "
            "that (the minute, the date) is not seen"
        )

    @property
    def qualified(self) -> bool:
        """True once the qualification was sent."""
        return "qualification" in self.__dict__

    @property
    def sent(self) -> Iterator[Sent]:
        """All sends so far that carry evidence."""
        for probe in self.qualification.probes:
            yield from (probe.first, *probe.repeats)
        if self._arms is not None:
            yield from self._arms.plain.sends
            if self._arms.attribution is not None:
                yield from self._arms.attribution.sends

    @property
    def cached_counts(self) -> list[int]:
        """Every non-zero cached count seen so far."""
        return [s.cached for s in self.sent if s.valid and s.cached]

    @property
    def granule(self) -> int:
        """Measured step of cached counts in tokens; 1 when none was ever above zero."""
        return granularity(self.cached_counts) or 1

    @property
    def growth_for_pinned(self) -> int:
        """Tokens a turn must grow by for a constant to mean something, at the present granule."""
        hot = self.thresholds.hot_pair
        return self._varied(max(hot.min_growth_tokens, round(self.thresholds.pinned.growth_planned * self.granule)))

    @property
    def growth_for_pairs(self) -> int:
        """Tokens a turn must grow by for a lost prefix to show, at the present granule."""
        hot = self.thresholds.hot_pair
        return self._varied(max(hot.min_growth_tokens, round(hot.growth_granules * self.granule)))

    def _varied(self, growth: int) -> int:
        more = round(growth * self.lab.variety.growth)
        return more if more <= self.plan.max_growth else growth

    @property
    def arms(self) -> Arms:
        if self._arms is None:
            if self.sees_upstream:  # the small fixed sets first: long turns must not use up their budget
                _ = self.identical, self.streams, self.many_tools if self._restart else ()
            self._arms = self.new_arms()
        return self._arms

    def new_arms(self, *, compare: bool = False) -> Arms:
        """Send the arms under fresh salts: for the first time, or to confirm what they showed.

        `compare` sends the arm without attribution block as often as the one with it.
        """
        plan, warm_send = self.plan, self.qualification.warm_send
        if not self.lab.sends_attribution:
            plain = self._arm("plain", self.growth_for_pinned, controls=plan.controls)
            run_arms([plain], pairs=plan.pairs, warm_send=warm_send, rng=self._rng)
            return Arms(plain, None)
        attribution = self._arm("with attribution block", self.growth_for_pinned, attribution=True)
        # Counts need long turns to show a small loss; bytes do not.
        growth = self.growth_for_pinned if plan.controls else self.growth_for_pairs
        plain = self._arm("plain", growth, controls=plan.controls)
        together = plan.pairs if compare else min(plan.plain_pairs, plan.pairs)
        if together:
            run_arms([plain, attribution], pairs=together, warm_send=warm_send, rng=self._rng)
        run_arms([attribution], pairs=plan.pairs - together, warm_send=warm_send, rng=self._rng)
        return Arms(plain, attribution)

    def _arm(self, name: str, growth: int, *, attribution: bool = False, controls: bool = False) -> Arm:
        if self.qualification.state is not CacheState.HITS:
            growth = self.thresholds.hot_pair.min_growth_tokens  # no count will be judged, and the granule is a guess
        growth = min(growth, self.plan.max_growth)
        # The tool section must end well above the floor, or a pinned count could hide below it; and a small loss
        # shows only in prompts of many granules.
        longer = (attribution or controls) and growth > 300
        extra = Extra(tools=round(growth / self.lab.tokens_per_byte)) if longer else Extra()
        conversation = self.lab.conversation(attribution=attribution, extra=extra, scale=self.qualification.scale)
        if self.streams_count:
            conversation.streamed_turns = (self.plan.pairs + 1) // 2
        return Arm(name, conversation, growth, controls=controls, repeat_turns=self.plan.repeat_turns)

    @property
    def streams_count(self) -> bool:
        """True when turns are to be streamed too, and streams report cached tokens to judge them by."""
        return self.plan.streamed and self.streams.sdk.usage.cached is not None

    @property
    def hits_by_form(self) -> str:
        """How many exact repeats hit to their end, plain and streamed; "" where only plain ones were sent."""
        told = []
        for form, streamed in (("plain", False), ("streamed", True)):
            ones = [s for s in self.hot_repeats if s.valid and s.exchange and s.exchange.streamed is streamed]
            warm = [is_hit(s, self.qualification.preamble_bound) and self.reaches_its_end(s) for s in ones]
            if ones:
                told.append(f"{sum(warm)} of {len(warm)} {form} ones hit to their end")
        return ", ".join(told) if len(told) == 2 else ""

    @property
    def turns_counted(self) -> bool:
        """False when a conversation grew turn by turn and the reported total, in its later half, did not."""
        arm = self._arms.pinned if self._arms is not None else None
        prompts = [s.prompt for s in arm.new_turns if s.valid and s.prompt is not None] if arm is not None else []
        if arm is None or len(prompts) < 5:
            return True
        late = prompts[len(prompts) // 2 :]
        appended = (len(late) - 1) * arm.growth / self.lab.tokens_per_byte
        return late[-1] - late[0] >= appended * self.thresholds.qualify.tokens_per_byte_low

    @cached_property
    def confirmation(self) -> Arms:
        """The arms once more, under fresh salts, after a pause."""
        time.sleep(self.pause_s)
        return self.new_arms(compare=not self.sees_upstream)

    @cached_property
    def direct(self) -> Arm | None:
        """The plain arm sent straight to the engine, where `--engine` names one: tells gateway and engine apart."""
        lab = self._engine_lab()
        if lab is None:
            return None
        lab.tokens_per_byte = self.lab.tokens_per_byte
        growth = min(self.growth_for_pinned, self.plan.max_growth)
        arm = Arm("direct to the engine", lab.conversation(scale=self.qualification.scale), growth, controls=True)
        run_arms([arm], pairs=self.plan.pairs, warm_send=self.qualification.warm_send, rng=self._rng)
        return arm

    @property
    def repeats(self) -> list[Sent]:
        """Every exact repeat sent so far."""
        found = [s for p in self.qualification.probes for s in p.repeats]
        if self._arms is not None:
            found += self._arms.plain.repeats
            found += self._arms.attribution.repeats if self._arms.attribution else []
        return found

    @property
    def cache_state(self) -> CacheState:
        """Qualification's word, revised by every exact repeat sent since."""
        state = self.qualification.state
        if state is CacheState.NONE_SEEN and self.sees_upstream:
            return why_none_hit(self.qualification.probes)
        if state not in (CacheState.HITS, CacheState.UNRELIABLE):
            return state
        repeats = [s for s in self.hot_repeats if s.valid]
        share, bound = self.thresholds.qualify.repeat_hit_share, self.qualification.preamble_bound
        if sum(is_hit(s, bound) for s in repeats) < share * len(repeats):
            return why_few_hit(self._hot_pairs, bound)
        if sum(self.reaches_its_end(s) for s in repeats) < share * len(repeats):
            return CacheState.PARTIAL
        return CacheState.HITS

    def reaches_its_end(self, repeat: Sent) -> bool:
        """True when an exact repeat came from cache up to its last blocks."""
        prompt, cached = repeat.prompt or 0, repeat.cached or 0
        if self.cached_counted_twice:
            prompt -= cached
        return cached >= prompt - self.thresholds.qualify.end_slack(self.granule, prompt)

    @property
    def cached_counted_twice(self) -> bool:
        """True when totals hold the cached tokens twice: each repeat's grew by exactly what its cached count grew by.

        That is a fault of the counting (USE-06), and says nothing of what the cache keeps.
        """
        known = [
            ((again.prompt or 0) - (first.prompt or 0), (again.cached or 0) - (first.cached or 0))
            for first, again in ((p.first, p.repeats[-1]) for p in self.qualification.probes)
            if first.valid and again.valid and first.prompt is not None and again.prompt is not None
        ]
        moved = [(total, cached) for total, cached in known if cached >= self.thresholds.usage.moved_tokens]
        return len(moved) >= 3 and all(total == cached for total, cached in moved)

    @property
    def hot_repeats(self) -> list[Sent]:
        """The repeat of each probe and pair that should hit: the second send, or the third where that is the first."""
        return [repeat for _, repeat in self._hot_pairs]

    @property
    def _hot_pairs(self) -> list[tuple[Sent, Sent]]:
        """`hot_repeats`, each behind the first send of its prompt."""
        late = self.qualification.warm_send == 3
        found = [(p.first, p.repeats[-1 if late else 0]) for p in self.qualification.probes]
        for arm in (self._arms.plain, self._arms.attribution) if self._arms is not None else ():
            turns = arm.new_turns if arm else []
            found += [(turns[p.turn - 1], p.repeat) for p in arm.pairs if p.repeat is not None] if arm else []
        return found

    @cached_property
    def challenge(self) -> tuple[Sent, ...]:
        """Exact repeats of prompts whose tools, or system text, are longer by more than the largest count seen."""
        return longer_prompts(self.lab, self.qualification, largest=max(self.cached_counts, default=0))

    @cached_property
    def novel(self) -> tuple[Sent, ...]:
        """Prompts of which nobody sent a line before; sent only when fresh prompts report hits."""
        return novel_prompts(self.lab, self.qualification.probes[0].content_bytes)

    @cached_property
    def tool_arms(self) -> ToolArms:
        """Repeats with and without a tool section; sent only when repeats of a session with tools miss."""
        return self._new_tool_arms()

    @cached_property
    def tool_confirmation(self) -> ToolArms:
        """The tool arms once more, under fresh salts, after a pause."""
        time.sleep(self.pause_s)
        return self._new_tool_arms()

    def _new_tool_arms(self) -> ToolArms:
        q, pairs = self.qualification, self.thresholds.hot_pair.pairs
        return send_tool_arms(self.lab, pairs=pairs, scale=q.scale, warm_send=q.warm_send, rng=self._rng)

    @cached_property
    def identical(self) -> tuple[Exchange, ...]:
        """Byte-identical short requests, sent raw one after the other."""
        return identical_requests(self.lab)

    @cached_property
    def many_tools(self) -> tuple[Exchange, ...]:
        """One short request with many tools, byte for byte the same; sent where the target will be restarted."""
        return send_many_tools(self.lab)

    def prepare_restart(self, rules: frozenset[str]) -> None:
        """Send what these rules compare across a restart: early, unless that is done, and once more right before it."""
        _ = self.identical, self.many_tools, self.arms if "PFX-09" in rules else ()
        turns = self._arms.plain.new_turns if self._arms is not None else []
        self._before = send_before(self.lab, self.identical, self.many_tools, turns)

    @property
    def will_restart(self) -> bool:
        """True where `across_restart` restarts the target, or has."""
        return self._restart is not None

    @cached_property
    def across_restart(self) -> AcrossRestart:
        """What was sent before, sent again after a restart: the last thing of a run."""
        assert self._restart is not None, "see will_restart"
        return send_after(self.lab, self._restart(), self._before)

    @cached_property
    def streams(self) -> Streams:
        return all_forms(self.lab, scale=self.qualification.scale, warm_send=self.qualification.warm_send)

    @cached_property
    def compaction(self) -> Compaction:
        """A session streamed through a client that compacts at a share of its window."""
        q = self.qualification
        return play_until_compaction(self.lab, scale=q.scale, warm_send=q.warm_send, floor=q.floor)

    @cached_property
    def translation(self) -> TranslationProbes:
        """Special conversations that show how the gateway translates."""
        return TranslationProbes(
            self.entry, self.lab, self._native_lab, lambda: self.qualification.floor + 3 * self.granule
        )

    @property
    def other(self) -> Observed | None:
        """The target's other entry, if it has one."""
        return self._other()

    @property
    def engine(self) -> EngineSaid:
        """What the engine behind the target says of itself, where `--engine` names it."""
        return self._engine()

    @property
    def dialects(self) -> DialectPair | None:
        """The same text on both entries; None where the target has only one."""
        return self._dialects()

    @cached_property
    def counting(self) -> tuple[Counted, ...]:
        """Requests counted by count_tokens first and then sent; Messages only."""
        return count_and_send(self.lab)

    @cached_property
    def trouble(self) -> Trouble | None:
        """One client's trouble beside another's request; None without scripted answers."""
        return Trouble(self.scripted, self._patience_s) if self.scripted is not None else None

    @cached_property
    def engine_counts_streams(self) -> bool | None:
        """Whether the engine counts its streams, by its own word or the other entry's; None: nothing tells."""
        return counts_streams(lambda: self.other.streams if self.other is not None else None, self._engine_lab())

    def own_text(self, text: str) -> bool:
        """True when `text` is part of a text the suite itself sent, on this entry."""
        return self._own_texts.has(text)

    def _of_other_parts(self, text: str) -> bool:
        """True when `text` is of a script, or of a special conversation that was sent."""
        if self.scripted is not None and self.scripted.own_text(text):
            return True
        return "translation" in self.__dict__ and any(text in sent for sent in self.translation.texts)
