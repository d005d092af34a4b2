"""Of a target's words those stand that the suite knows; of the others the shape."""

from __future__ import annotations

import pytest

from conformance.rules import RULES
from conformance.vocabulary import Vocabulary, spoken


@pytest.mark.parametrize(
    "words",
    [
        "HTTP 401: Authentication Error, LiteLLM Virtual Key expected.",
        "litellm.BadRequestError: OpenAIException - max_tokens is too small",
        "Invalid model name passed in. Call `/v1/models` to view available models",
        "This model's maximum context length is 4096 tokens. However, you requested 4112 tokens",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "tools.0.input_schema: Field required",
        "[Errno 111] Connection refused",
        "429 Too Many Requests: rate limit exceeded, try again in 30 s",
        "502 Bad Gateway nginx",
        "invalid_request_error",
        "pinned at exactly 17,920 cached tokens in 383 turns; 83.67 % (characters 85-89 from 0): [17920, 18176)",
        "system[0], the value of `cch`: attribution block; message 4 (user) -> tool 23",
        "当前分组 下 模型 无可用渠道",
    ],
)
def test_errors_and_verdicts_stand_as_they_are(words: str) -> None:
    assert spoken(words) == words


def test_every_word_of_the_catalogue_is_known() -> None:
    for rule in RULES.values():
        for text in (rule.title, rule.statement, rule.witness, rule.cost, rule.remedy):
            assert spoken(text) == text


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("no such user: quuxwellington", "no such user: aaaaaaaaaaaaaa"),
        ("key Quuxwellington-4711 is unknown", "key aaaaaaaaaaaaaa-9999 is unknown"),
        ("zanzibar@example.com", "aaaaaaaa@example.com"),
        ("call +4917098765432 now", "call +9999999999999 now"),
        ("ZANZIBAR_SECRET_TEXT", "aaaaaaaa_aaaaaa_aaaa"),
        ("session a1b2c3d4e5f6", "session a9a9a9a9a9a9"),
        ("call_dfSzWcA1 chatcmpl-9f8e", "call_aaaaaaa9 chatcmpl-9a9a"),
        ('{"n":4711,"who":"quuxwellington-42"}', '{"n":4711,"who":"aaaaaaaaaaaaaa-99"}'),
        ("模型 桑给巴尔 无可用渠道", "模型 aaaa 无可用渠道"),
    ],
)
def test_words_nobody_knows_show_their_shape(words: str, shown: str) -> None:
    assert spoken(words) == shown


def test_what_was_sent_is_known_in_any_spelling_of_it() -> None:
    sent = ("the tool look_up_zanzibar", "12345678901234567890", "caf\u00e9 quux")
    for words in ("look_up_zanzibar", "1.2345678901234567e19", "CAF\u00c9", "cafe\u0301", "caf\\u00e9", "`quux`;"):
        assert spoken(words) != spoken(words, *sent) == words


def test_texts_sent_later_are_known_later() -> None:
    sent: list[str] = []
    vocabulary = Vocabulary(lambda: sent)
    assert vocabulary.spoken("zanzibar") == "aaaaaaaa"
    sent.append("zanzibar")
    assert vocabulary.spoken("zanzibar") == "zanzibar"


def test_words_cut_at_the_ends_of_a_window_are_known_by_what_is_left() -> None:
    assert spoken("…zibar is near Quuxwell…", "zanzibar quuxwellington") == "…zibar is near Quuxwell…"
    assert spoken("…zibar is near Quuxwell…", "zanzibar") == "…zibar is near aaaaaaaa…"
    sent = ("cch=0a1b2;", "76268f71-prefixproof-000001")
    assert spoken("…; cch=0a1b2;76268f71-prefixproof-000…", *sent) == "…; cch=0a1b2;76268f71-prefixproof-000…"


def test_a_window_may_end_inside_a_word_and_a_text_may_not() -> None:
    vocabulary = Vocabulary(lambda: ["to find coverage of zanzibar"])
    assert vocabulary.spoken("anzibar find cove", window=True) == "anzibar find cove"
    assert vocabulary.spoken("anzibar find cove") == "aaaaaaa find aaaa"
    assert spoken('{"cached_tokens":700,"prompt_cache_miss_tok…') == '{"cached_tokens":700,"prompt_cache_miss_tok…'


def test_round_numbers_are_nobodys() -> None:
    assert spoken("1000000000000000000000000000000 and 4917012345678") == (
        "1000000000000000000000000000000 and 9999999999999"
    )
