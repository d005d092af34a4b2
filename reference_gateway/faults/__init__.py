"""The named faults: one mutation each, with the rules it breaks.

A conformance suite that is right reports, for each fault, exactly the rules declared here and no others.
"""

from ..seams import Mutations
from . import prompts, streams, usage
from .answers import ANSWERS
from .base import Fault
from .starts import STARTS
from .translation import TRANSLATION

__all__ = ["FAULTS", "Fault", "mutations_of"]


def _ids(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ALL = (
    Fault(
        "keep-billing-header",
        "the attribution text of Claude Code stays at the head of the system prompt",
        _ids("PFX-02 PFX-03 PFX-19"),
        "new-api before its switch; every translating gateway tried that did not know of the text",
        prompts.KeepBillingHeader,
        breaks_if_tools_first=_ids("PIN-01"),
    ),
    Fault(
        "drop-system",
        "the system prompt is not sent upstream",
        _ids("CON-01"),
        "a gateway whose prefixes are perfect because the varying part, the system prompt, is gone",
        prompts.DropSystem,
    ),
    Fault(
        "own-system-note",
        "a constant sentence of the gateway's own stands before the system text",
        _ids("CON-01"),
        "openai2claude 0.1.1 adds a system block of its own",
        prompts.OwnSystemNote,
    ),
    Fault(
        "clock-in-system",
        "the time of the request stands before the system text",
        _ids("CON-01 PFX-01 PFX-13 PFX-14"),
        "proxies that tell the model the date and time",
        prompts.ClockInSystem,
    ),
    Fault(
        "body-hash-note",
        "a number made from the request's body stands before the system text; same body, same number",
        _ids("CON-01 PFX-01 PFX-13"),
        "trace and cache keys written into the prompt; the attribution text's own cch is made this way",
        prompts.BodyHashNote,
        breaks_if_tools_first=_ids("PIN-01"),
    ),
    Fault(
        "system-late",
        "the system prompt is moved to right before the last message, so the prefix moves with each turn",
        _ids("PFX-01"),
        "gateways that restate instructions at the end of the conversation",
        prompts.SystemLate,
    ),
    Fault(
        "shuffle-tools",
        "tools are sent in a random order",
        _ids("PFX-01 PFX-09 PFX-14"),
        "tools kept in a hash map whose iteration order changes",
        prompts.ShuffleTools,
    ),
    Fault(
        "shuffle-schema-keys",
        "the keys inside tool definitions are sent in a random order",
        _ids("PFX-01 PFX-09 PFX-14"),
        "schemas decoded into and written from a hash map",
        prompts.ShuffleSchemaKeys,
    ),
    Fault(
        "random-user",
        "every upstream body gets a random `user`",
        _ids("AFF-02 PFX-14"),
        "request ids passed on in a field of the body",
        prompts.RandomUser,
    ),
    Fault(
        "invent-cache-hits",
        "80 % of every prompt is reported as cached, whatever the upstream said",
        _ids("PIN-02 USE-01 USE-03 USE-05"),
        "usage filled in by a formula where the upstream's fields were not read",
        usage.InventCacheHits,
    ),
    Fault(
        "constant-cached",
        "1,024 cached tokens are reported always",
        _ids("PIN-02 PIN-03 USE-01 USE-03 USE-05"),
        "a placeholder value that was never replaced",
        usage.ConstantCached,
    ),
    Fault(
        "constant-when-warm",
        "1,024 cached tokens are reported whenever the upstream reports more than 512",
        _ids("PIN-03 USE-01 USE-05"),
        "a cap or bucket put over the cached count",
        usage.ConstantWhenWarm,
    ),
    Fault(
        "input-includes-cached",
        "cached tokens are counted inside the input and once more beside it",
        _ids("CMP-01 USE-01 USE-05 USE-06"),
        "llm-rosetta 0.13.0 and ant2oai 0.1.6: 1000 / 900 where 100 / 900 is right",
        usage.InputIncludesCached,
    ),
    Fault(
        "exclude-cache-off",
        "the switch for Anthropic-style input is off: inclusive input, and an estimate in message_start",
        _ids("CMP-01 STR-02 USE-01 USE-06 USE-07 USE-08"),
        "new-api before its switch: clients compact at half their window",
        usage.ExcludeCacheOff,
    ),
    Fault(
        "estimate-input",
        "the prompt's tokens are a quarter of its bytes instead of what the upstream counted",
        _ids("CMP-01 USE-01 USE-05"),
        "gateways that bill by their own tokenizer",
        usage.EstimateInput,
    ),
    Fault(
        "drop-cached",
        "cached tokens are not reported; all of the prompt is input",
        _ids("USE-01 USE-05"),
        "LiteLLM 1.81.9 and openai2claude 0.1.1: 1000 / - where 100 / 900 is right",
        usage.DropCached,
    ),
    Fault(
        "stream-output-count",
        "streamed output tokens are the number of deltas plus seven",
        _ids("STR-03 USE-05 USE-07"),
        "gateways that count chunks: LiteLLM 1.81.9 reports 5 output tokens for 50",
        streams.StreamOutputCount,
    ),
    Fault(
        "delta-without-input",
        "the last message_delta tells the output tokens only",
        _ids("STR-03 USE-01 USE-07 CMP-01"),
        "claude-code-router 2.0.0 and rolter 0.1.0 leave the zeros of message_start standing",
        streams.DeltaWithoutInput,
    ),
    Fault(
        "delta-increments",
        "output tokens come as increments in two message_delta events",
        _ids("STR-03 USE-07"),
        "gateways that forward each chunk's usage as it comes",
        streams.DeltaIncrements,
    ),
    Fault(
        "start-estimate",
        "message_start carries an estimate above the final input",
        _ids("STR-02 CMP-01"),
        "LiteLLM 1.81.9; vLLM's own /v1/messages starts with the full prompt and ends with less",
        streams.StartEstimate,
    ),
    Fault(
        "no-message-stop",
        "a stream ends without closing its last block and its message",
        _ids("STR-01"),
        "translators that end when the upstream's finish_reason arrives",
        streams.NoMessageStop,
    ),
    Fault(
        "no-include-usage",
        "the upstream is not asked for usage in streams, so there is none to report",
        _ids("STR-03 STR-04 USE-07 CMP-01"),
        "claude-code-router 2.0.0, openai2claude 0.1.1, rolter 0.1.0",
        streams.NoIncludeUsage,
    ),
    Fault(
        "leak-usage-chunk",
        "a chat client that did not ask for usage gets the extra chunk without choices",
        _ids("STR-04"),
        "clients that read choices[0] of every chunk crash on it",
        streams.LeakUsageChunk,
    ),
    Fault(
        "cached-twice",
        "streamed to chat clients, cached tokens are counted twice",
        _ids("PIN-04 USE-05"),
        "usage of several chunks added up instead of the last one taken",
        usage.CachedTwice,
    ),
    Fault(
        "session-high-water",
        "a session's prompt is counted as the largest it ever had, also after its client has compacted",
        _ids("CMP-01"),
        "context gauges that never fall; opencode compacts for ever while the reported usage stays above its limit",
        usage.SessionHighWater,
    ),
)

FAULTS: dict[str, Fault] = {fault.name: fault for fault in (*_ALL, *ANSWERS, *TRANSLATION, *STARTS)}


def mutations_of(name: str | None) -> type[Mutations]:
    """The mutations of a fault; without a name, the right behaviour.

    Raises:
        ValueError: there is no fault of that name.
    """
    if name is None:
        return Mutations
    if name not in FAULTS:
        raise ValueError(f"there is no fault {name!r}; the faults are {', '.join(FAULTS)}")
    return FAULTS[name].mutations
