"""Everything the suite observed at one entry. Each observation is sent once, when a judgement first asks for it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from conformance.evidence.conversation import Extra, Sent
from conformance.evidence.hotpair import Arm, run_arms
from conformance.evidence.qualify import CacheState, Qualification, granularity, is_hit, qualify
from conformance.evidence.thresholds import Thresholds
from conformance.observe.compaction import Compaction, play_until_compaction
from conformance.observe.counting import Counted, count_and_send
from conformance.observe.lab import WireConversation, WireLab
from conformance.observe.own_texts import OwnTexts
from conformance.observe.plan import IDENTICAL_REQUESTS, Plan
from conformance.observe.scripted import ScriptedUpstream
from conformance.observe.translation_probes import TranslationProbes
from conformance.observe.trouble import Trouble
from conformance.observe.under_load import LoadRun
from conformance.verdicts import Entry
from conformance.wire.exchange import Exchange


@dataclass(frozen=True)
class Arms:
    """The growing conversations of one entry. `attribution` is None where no client sends such a block."""

    plain: Arm
    attribution: Arm | None

    @property
    def pinned(self) -> Arm:
        """The arm PIN-01 reads: as the entry's real client is, its block included."""
        return self.attribution or self.plain


@dataclass(frozen=True)
class Streams:
    """One request in all its forms. `cold` and `plain` are its first and second plain answers."""

    cold: Exchange
    plain: Exchange
    raw: Exchange  # streamed, events verbatim; a chat client that asks for usage
    sdk: Exchange  # streamed, accumulated by the official SDK
    unasked: Exchange | None  # chat only: streamed by a client that does not ask for usage

    @property
    def repeat_themselves(self) -> bool:
        """True when the model repeats itself, unseen reasoning included: only then do output counts compare.

        Both plain answers are alike in content and output count, both streams in their count, and all in text.
        """
        plain, streamed = (self.cold, self.plain), (self.raw, self.sdk)
        return (
            len({e.text for e in (*plain, *streamed)}) == 1
            and len({(e.tool_calls, e.usage.output) for e in plain}) == 1
            and len({e.usage.output for e in streamed}) == 1
        )


@dataclass(frozen=True)
class DialectPair:
    """The same text-only conversation on both entries, each sent twice; the second answers."""

    messages: Exchange
    chat: Exchange


@dataclass(frozen=True)
class ToolArms:
    """Exact repeats of sessions with tools and without, sent in turns: (first, repeat) each."""

    with_tools: tuple[tuple[Sent, Sent], ...]
    without_tools: tuple[tuple[Sent, Sent], ...]


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
        load: Callable[[str, Entry], LoadRun] | None = None,
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
        self._load = load
        self._load_runs: dict[str, LoadRun] = {}
        self._rng = rng
        self._dialects = dialects
        self._arms: Arms | None = None
        self._own_texts = OwnTexts(lab, self._of_other_parts)

    @property
    def sees_upstream(self) -> bool:
        """True when a recorder stands between the target and the engine and saw the suite's requests."""
        return self.lab.sees_upstream

    def load_run(self, shape: str) -> LoadRun:
        """One run of the load generator through this entry, made when it is first asked for."""
        if self._load is None:
            return LoadRun(shape, None, "needs --load")
        if shape not in self._load_runs:
            self._load_runs[shape] = self._load(shape, self.entry)
        return self._load_runs[shape]

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
        return max(hot.min_growth_tokens, round(self.thresholds.pinned.growth_planned * self.granule))

    @property
    def growth_for_pairs(self) -> int:
        """Tokens a turn must grow by for a lost prefix to show, at the present granule."""
        hot = self.thresholds.hot_pair
        return max(hot.min_growth_tokens, round(hot.growth_granules * self.granule))

    @property
    def arms(self) -> Arms:
        if self._arms is None:
            if self.sees_upstream:  # the small fixed sets first: long turns must not use up their budget
                _ = self.identical, self.streams
            self._arms = self.new_arms()
        return self._arms

    def new_arms(self) -> Arms:
        """Send the arms under fresh salts: for the first time, or to confirm what they showed."""
        plan, warm_send = self.plan, self.qualification.warm_send
        if not self.lab.sends_attribution:
            plain = self._arm("plain", self.growth_for_pinned, controls=plan.controls)
            run_arms([plain], pairs=plan.pairs, warm_send=warm_send, rng=self._rng)
            return Arms(plain, None)
        attribution = self._arm("with attribution block", self.growth_for_pinned, attribution=True)
        # Counts need long turns to show a small loss; bytes do not.
        growth = self.growth_for_pinned if plan.controls else self.growth_for_pairs
        plain = self._arm("plain", growth, controls=plan.controls)
        together = min(plan.plain_pairs, plan.pairs)
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
        return Arm(name, conversation, growth, controls=controls, repeat_turns=self.plan.repeat_turns)

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
        return self.new_arms()

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
        if state not in (CacheState.HITS, CacheState.UNRELIABLE):
            return state
        repeats = [s for s in self.hot_repeats if s.valid]
        share = self.thresholds.qualify.repeat_hit_share
        if sum(is_hit(s, self.qualification.preamble_bound) for s in repeats) < share * len(repeats):
            return CacheState.UNRELIABLE
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
        late = self.qualification.warm_send == 3
        found = [p.repeats[-1] if late else p.repeats[0] for p in self.qualification.probes]
        if self._arms is not None:
            for arm in (self._arms.plain, self._arms.attribution):
                found += [p.repeat for p in arm.pairs if p.repeat is not None] if arm else []
        return found

    @cached_property
    def challenge(self) -> tuple[Sent, ...]:
        """Exact repeats of prompts whose tools, or system text, are longer by more than the largest count seen.

        Whatever section a true count ends in, one of these moves it; and both prompts are longer than twice that
        count, so that even if it were one granule, a warm repeat would show two.
        """
        largest = max(self.cached_counts, default=0)
        base = self.qualification.probes[0].first.prompt or 0
        extra = round(max(1.4 * largest, 2.4 * largest - base) / self.lab.tokens_per_byte)
        found = []
        for longer in (Extra(tools=extra), Extra(system=extra)):
            conversation = self.lab.conversation(extra=longer, scale=self.qualification.scale)
            for _ in range(self.qualification.warm_send - 1):
                conversation.send()
            found.append(conversation.send())
        return tuple(found)

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
        with_tools: list[tuple[Sent, Sent]] = []
        without: list[tuple[Sent, Sent]] = []
        for _ in range(self.thresholds.hot_pair.pairs):
            order = [(True, with_tools), (False, without)]
            self._rng.shuffle(order)
            for tools, found in order:
                conversation = self.lab.conversation(scale=self.qualification.scale, tools=tools)
                first = conversation.send()
                for _ in range(self.qualification.warm_send - 2):
                    conversation.send()
                found.append((first, conversation.send()))
        return ToolArms(tuple(with_tools), tuple(without))

    @cached_property
    def identical(self) -> tuple[Exchange, ...]:
        """Byte-identical short requests, sent raw one after the other."""
        session = self.lab.session()
        body = session.body()
        text = f"{session.salt} Answer briefly."
        if self.entry is Entry.MESSAGES:
            body["system"] = text
        else:
            body["messages"] = [{"role": "system", "content": text}, {"role": "user", "content": "What is a prefix?"}]
        return tuple(self.lab.send_body(body, headers=session.headers()) for _ in range(IDENTICAL_REQUESTS))

    @cached_property
    def streams(self) -> Streams:
        session = self.lab.session(scale=self.qualification.scale)
        session.grow(600)
        cold = self.lab.send(session)
        for _ in range(self.qualification.warm_send - 2):
            self.lab.send(session)
        plain = self.lab.send(session)
        if self.entry is Entry.MESSAGES:
            raw = self.lab.send(session, stream=True, via="raw")
            return Streams(cold, plain, raw, self.lab.send(session, stream=True), None)
        asked = {**session.body(), "stream_options": {"include_usage": True}}
        return Streams(
            cold,
            plain,
            raw=self.lab.send_body(asked, stream=True, headers=session.headers()),
            sdk=self.lab.send_body(asked, stream=True, via="sdk", headers=session.headers()),
            unasked=self.lab.send(session, stream=True, via="raw"),
        )

    @cached_property
    def compaction(self) -> Compaction:
        """A session streamed through a client that compacts at a share of its window."""
        q = self.qualification
        return play_until_compaction(self.lab, scale=q.scale, warm_send=q.warm_send, floor=q.floor)

    @cached_property
    def translation(self) -> TranslationProbes:
        """Special conversations that show how the gateway translates."""
        return TranslationProbes(self.entry, self.lab, self._native_lab)

    @property
    def other(self) -> Observed | None:
        """The target's other entry, if it has one."""
        return self._other()

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

    @property
    def conversations(self) -> list[WireConversation]:
        return self.lab.conversations

    def own_text(self, text: str) -> bool:
        """True when `text` is part of what the suite itself sent, or several such texts joined."""
        return self._own_texts.has(text)

    def _of_other_parts(self, text: str) -> bool:
        """True when `text` is of a script, or of a special conversation that was sent."""
        if self.scripted is not None and self.scripted.own_text(text):
            return True
        return "translation" in self.__dict__ and any(text in sent for sent in self.translation.texts)
