"""The named faults: one mutation each, with the rules it breaks.

A conformance suite that is right reports, for each fault, exactly the rules declared here and no others.
"""

from ..seams import Mutations
from . import calls, prompts, streams, usage
from .base import Fault

__all__ = ["FAULTS", "Fault", "mutations_of"]


def _ids(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ALL = (
    Fault(
        "keep-billing-header",
        "the attribution text of Claude Code stays at the head of the system prompt",
        _ids("PFX-02"),
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
        _ids("CON-01 PFX-01 PFX-14"),
        "proxies that tell the model the date and time",
        prompts.ClockInSystem,
    ),
    Fault(
        "body-hash-note",
        "a number made from the request's body stands before the system text; same body, same number",
        _ids("CON-01 PFX-01"),
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
        _ids("PFX-14"),
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
        _ids("USE-01 USE-05 USE-06"),
        "llm-rosetta 0.13.0 and ant2oai 0.1.6: 1000 / 900 where 100 / 900 is right",
        usage.InputIncludesCached,
    ),
    Fault(
        "exclude-cache-off",
        "the switch for Anthropic-style input is off: inclusive input, and an estimate in message_start",
        _ids("STR-02 USE-01 USE-06 USE-07 USE-08"),
        "new-api before its switch: clients compact at half their window",
        usage.ExcludeCacheOff,
    ),
    Fault(
        "estimate-input",
        "the prompt's tokens are a quarter of its bytes instead of what the upstream counted",
        _ids("USE-01 USE-05"),
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
        _ids("STR-03 USE-01 USE-07"),
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
        _ids("STR-02"),
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
        _ids("STR-03 STR-04 USE-07"),
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
        "negative-usage",
        "cached tokens are subtracted from the prompt without a floor",
        _ids("USE-02"),
        "upstreams whose cached count runs ahead of their prompt count",
        usage.NegativeInput,
    ),
    Fault(
        "unknown-as-zero",
        "cached tokens nobody reported are reported as 0",
        _ids("USE-03"),
        "typed usage records whose fields default to 0",
        usage.UnknownAsZero,
    ),
    Fault(
        "zero-as-unknown",
        "a cached count of 0 is left out of Messages answers",
        _ids("USE-03"),
        "truth tests on a count: 0 is falsy",
        usage.ZeroAsUnknown,
    ),
    Fault(
        "deepseek-miss-as-creation",
        "DeepSeek's misses are reported as cache writes",
        _ids("USE-04"),
        "gateways that map hit and miss to read and creation",
        usage.MissAsCreation,
    ),
    Fault(
        "deepseek-hit-unread",
        "DeepSeek's hits are not read",
        _ids("USE-04"),
        "gateways that know OpenAI's details only",
        usage.HitUnread,
    ),
    Fault(
        "chat-usage-rewritten",
        "chat clients get their prompt without its cached part, the Anthropic way",
        _ids("USE-05 USE-06 USE-07"),
        "gateways with one usage record for both dialects",
        usage.ChatUsageRewritten,
    ),
    Fault(
        "chat-details-dropped",
        "chat clients get no completion_tokens_details",
        _ids("USE-05"),
        "usage copied field by field",
        usage.ChatDetailsDropped,
    ),
    Fault(
        "creation-counted-twice",
        "written tokens stay part of the input and are told beside it too",
        _ids("USE-02 USE-08"),
        "gateways that subtract cached tokens and forget written ones",
        usage.CreationTwice,
    ),
    Fault(
        "rest-as-creation",
        "what was not read from cache is reported as written to it",
        _ids("USE-04 USE-08"),
        "gateways that fill Anthropic's three fields from two numbers",
        usage.RestAsCreation,
    ),
    Fault(
        "float-usage",
        "counts that are no integers go through as they came",
        _ids("USE-09"),
        "usage copied without looking at it",
        usage.NumbersAsTheyCame,
    ),
    Fault(
        "reasoning-dropped",
        "reasoning is subtracted from output tokens",
        _ids("USE-10"),
        "gateways that report visible text only",
        usage.ReasoningDropped,
    ),
    Fault(
        "first-usage-chunk-wins",
        "of several usage chunks the first one is reported",
        _ids("STR-05"),
        "translators that stop looking once they have seen usage",
        streams.FirstUsageWins,
    ),
    Fault(
        "usage-with-choices-missed",
        "usage on a chunk that has choices is not read",
        _ids("STR-05"),
        "translators written against include_usage's extra chunk only",
        streams.UsageWithChoicesMissed,
    ),
    Fault(
        "no-usage-crash",
        "a stream whose upstream sent no usage ends in an error",
        _ids("STR-06"),
        "openai2claude 0.1.1 and others read usage as if it were always there",
        streams.NoUsageCrash,
    ),
    Fault(
        "broken-stream-as-end-turn",
        "a stream that broke off ends as if the model had finished",
        _ids("STR-07 STR-09"),
        "LiteLLM 1.81.9 and claude-code-router 2.0.0: an aborted upstream ends in end_turn",
        streams.BrokenAsFinished,
    ),
    Fault(
        "broken-stream-in-silence",
        "a stream that broke off or just ended leaves the client without a word of it",
        _ids("STR-07 STR-09"),
        "llm-rosetta 0.13.0: events stop",
        streams.BrokenInSilence,
    ),
    Fault(
        "clean-end-as-stop",
        "a stream that ended without a finish_reason is taken for finished",
        _ids("STR-09"),
        "LiteLLM 1.108.7 and ant2oai 0.1.6: end_turn, with usage nobody reported",
        streams.UnfinishedAsFinished,
    ),
    Fault(
        "same-block-index",
        "all tool calls of a stream come under one index",
        _ids("STR-08"),
        "llm-rosetta 0.13.0: two parallel calls, both index 1",
        streams.OneIndexForCalls,
    ),
    Fault(
        "null-block",
        "tool calls of a stream start with a null content block",
        _ids("STR-08"),
        "events written from a struct whose block was not set",
        streams.NullBlock,
    ),
    Fault(
        "error-as-200",
        "upstream errors are told in the body of a 200",
        _ids("ERR-01"),
        "openai2claude 0.1.1 in streams",
        calls.ErrorAs200,
    ),
    Fault(
        "retry-after-dropped",
        "the upstream's Retry-After is not passed on",
        _ids("ERR-01"),
        "LiteLLM 1.108.7",
        calls.RetryAfterDropped,
    ),
    Fault(
        "openai-errors",
        "every client is told of errors in OpenAI's shape",
        _ids("ERR-01"),
        "claude-code-router 2.0.0, llm-rosetta 0.13.0, ant2oai 0.1.6",
        calls.OpenAIErrors,
    ),
    Fault(
        "errors-as-503",
        "whatever the upstream refused comes as a 503",
        _ids("ERR-01"),
        "rolter 0.1.0",
        calls.ErrorsAs503,
    ),
    Fault(
        "retry-storm",
        "an upstream call that fails is made six times",
        _ids("ERR-01"),
        "vllm-router 0.1.17 on chat, for 429 and 500",
        calls.RetryStorm,
    ),
    Fault(
        "hung-call-blocks-others",
        "an upstream call waits until the one before it is answered",
        _ids("ERR-02"),
        "rolter 0.1.0: one hung upstream call blocks the rest",
        calls.OneCallAtATime,
    ),
    Fault(
        "cools-down",
        "after one upstream error the next two requests are turned away",
        _ids("ERR-02"),
        "routers whose cooldown knows one deployment only",
        calls.CoolsDown,
    ),
    Fault(
        "serves-the-departed",
        "a client that leaves is not noticed: its upstream call runs to the end",
        _ids("ERR-02"),
        "frameworks that do not watch for a disconnect while they wait",
        calls.ServesTheDeparted,
    ),
    Fault(
        "count-tokens-estimate",
        "count_tokens answers a quarter of the messages' bytes",
        _ids("CNT-01"),
        "gateways that answer count_tokens without asking anyone",
        calls.EstimateCount,
    ),
)

FAULTS: dict[str, Fault] = {fault.name: fault for fault in _ALL}


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
