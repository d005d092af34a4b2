"""The registry of faults, and single mutations at their edges."""

import pytest
from gateway_rig import JSONObject

from reference_gateway import FAULTS, GatewayConfig, create_app

FAMILIES = {
    "CON": [1, 2, 3, 4],
    "PFX": range(1, 22),
    "PIN": range(1, 5),
    "ISO": [1],
    "AFF": [2],
    "USE": range(1, 11),
    "STR": range(1, 10),
    "ERR": [1, 2],
    "CNT": [1],
    "CMP": [1],
}
RULES = {f"{family}-{number:02d}" for family, numbers in FAMILIES.items() for number in numbers}


@pytest.mark.parametrize("fault", ["drop-system", "system-late", "clock-in-system"])
@pytest.mark.parametrize("count", [1, 2])
def test_short_conversations_get_an_answer(fault: str, count: int) -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}][:count]
    sent = FAULTS[fault].mutations(b"").chat_body({"messages": messages})["messages"]
    assert sent[-1] == messages[-1] or fault == "clock-in-system"
    assert len(sent) == (1 if fault == "drop-system" else count)


@pytest.mark.parametrize(("cached", "reported"), [(None, None), (0, 0), (512, 512), (513, 1024), (3000, 1024)])
def test_the_warm_constant_leaves_small_counts_alone(cached: int | None, reported: int | None) -> None:
    usage: JSONObject = {"prompt_tokens": 4000, "completion_tokens": 1}
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    mutated = FAULTS["constant-when-warm"].mutations(b"").upstream_usage(usage)
    assert mutated is not None
    assert (mutated.get("prompt_tokens_details") or {}).get("cached_tokens") == reported


def test_only_the_last_block_stays_open() -> None:
    mutations = FAULTS["no-message-stop"].mutations(b"")
    kinds = [
        "start",
        "block_start",
        "delta",
        "block_stop",
        "block_start",
        "delta",
        "block_stop",
        "message_delta",
        "message_stop",
    ]
    long = {"start": "message_start", "delta": "content_block_delta", "block_start": "content_block_start"}
    long["block_stop"] = "content_block_stop"
    sent = [out["type"] for kind in kinds for out in mutations.messages_event({"type": long.get(kind, kind)})]
    assert sent == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "message_delta",
    ]


def test_every_rule_of_the_suite_has_a_fault_and_its_own_column() -> None:
    columns: dict[str, set[str]] = {rule: set() for rule in RULES}
    for fault in FAULTS.values():
        assert fault.breaks | fault.breaks_across_restart
        assert fault.summary
        assert fault.field_example
        for rule in fault.breaks | fault.breaks_if_tools_first | fault.breaks_across_restart:
            columns[rule].add(fault.name)
        assert not fault.breaks & (fault.breaks_if_tools_first | fault.breaks_across_restart)
    assert all(columns.values())
    assert len({frozenset(column) for column in columns.values()}) == len(columns)
    assert all(name == fault.name for name, fault in FAULTS.items())


def test_an_unknown_fault_is_named() -> None:
    config = GatewayConfig.model_validate({"channels": [{"name": "c", "url": "http://h", "models": ["m"]}]})
    with pytest.raises(ValueError, match=r"no fault 'typo'; the faults are keep-billing-header, "):
        create_app(config, fault="typo")
