"""Tokenizers: cut texts give the tokens of whole ones, the fast one is exact, memos stay bounded."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.embedded.hashing import token_bytes, token_ids
from engine.embedded.memo import TextMemo
from engine.embedded.tokenizer import (
    CERTAIN_CUT,
    CONTROL_TOKENS,
    DeepSeekTokenizer,
    FastTokenizer,
    Tokenizer,
    decode,
    deepseek_vocabulary,
)

PIECEWISE = DeepSeekTokenizer(deepseek_vocabulary(), piecewise_from=0)
FAST = FastTokenizer()

# What could make a cut visible: marks, digits, CJK, white space of all kinds, punctuation, control tokens, bytes of
# several widths, and plenty of places to cut.
fragments = st.one_of(
    st.sampled_from(
        [
            *("d", "g", "y", "and", "string", "day", "D", "é", "́", "ß", "中文", "日", "ー", "7", "1234", "٣"),
            *(" ", "  ", "\n", "\n\n", "\r\n", "\t", "\u2028", "\u00a0", "\x00", "\x85"),
            *('"', '",', '":{"', ",", ".", "...", "{}", "'s", "don't", "//", "_", "|", "😀", "‍", "＂", "。"),
            *('{"type":"string","description":"'),
            *CONTROL_TOKENS,
            *("<dsml:", "</dsml:", "<think>", "｜DSML｜", "<|EOT|>", "<｜", "｜>"),
        ]
    ),
    st.text(max_size=6),
    st.text(alphabet='dgyabc \n",.123', max_size=30),
)
texts = st.lists(fragments, max_size=40).map("".join)


@settings(max_examples=400, deadline=None)
@given(texts)
def test_pieces_give_the_tokens_of_the_whole_text(text: str) -> None:
    assert PIECEWISE.encode(text) == PIECEWISE.encode_whole(text)


@settings(max_examples=400, deadline=None)
@given(texts, st.sampled_from("dgy"), st.sampled_from(' \n",.'), texts)
def test_a_certain_cut_separates_whatever_stands_around_it(head: str, left: str, right: str, tail: str) -> None:
    whole = PIECEWISE.encode_whole(head + left + right + tail)
    assert whole == PIECEWISE.encode_whole(head + left) + PIECEWISE.encode_whole(right + tail)


def test_long_texts_are_cut_into_many_pieces() -> None:
    text = 'The string is read by "key", and any body.\n' * 200
    assert len(CERTAIN_CUT.split(text)) > 500
    tokenizer = DeepSeekTokenizer(deepseek_vocabulary())
    assert tokenizer.encode(text) == tokenizer.encode_whole(text)


class Counting(DeepSeekTokenizer):
    """Keeps the texts that were really encoded."""

    def __init__(self) -> None:
        super().__init__(deepseek_vocabulary())
        self.encoded: list[str] = []

    def encode_whole(self, text: str) -> bytes:
        self.encoded.append(text)
        return super().encode_whole(text)


def test_a_change_inside_a_long_text_costs_its_piece() -> None:
    tokenizer = Counting()
    line = 'Rule {}: keep every string as it is, and say "why" in any reply.\n'
    head, tail = ("".join(line.format(n) for n in numbers) for numbers in (range(700), range(700, 1400)))
    tokenizer.encode(f"{head}cch=1a2b3;\n{tail}")
    tokenizer.encoded.clear()
    tokenizer.encode(f"{head}cch=77777777;\n{tail}")
    assert len(head + tail) > 90_000
    assert sum(map(len, tokenizer.encoded)) < 200
    tokenizer.encoded.clear()
    tokenizer.encode(f"{head}cch=77777777;\n{tail}")
    assert tokenizer.encoded == []


@pytest.mark.parametrize("tokenizer", [FAST, PIECEWISE], ids=["fast", "deepseek"])
@given(text=texts)
@settings(max_examples=200, deadline=None)
def test_decoding_gives_the_text_back(tokenizer: Tokenizer, text: str) -> None:
    assert decode(tokenizer, token_ids(tokenizer.encode(text))) == text


@pytest.mark.parametrize("tokenizer", [FAST, PIECEWISE], ids=["fast", "deepseek"])
def test_control_tokens_are_single_and_their_own(tokenizer: Tokenizer) -> None:
    words = [tokenizer.control(token) for token in CONTROL_TOKENS]
    assert all(len(word) == 4 for word in words)
    assert len(set(words)) == len(words)
    assert [decode(tokenizer, token_ids(word)) for word in words] == list(CONTROL_TOKENS)


@given(texts)
def test_no_text_makes_a_control_token_in_the_fast_tokenizer(text: str) -> None:
    controls = {FAST.control(token) for token in CONTROL_TOKENS}
    data = FAST.encode(text)
    assert not controls & {data[at : at + 4] for at in range(0, len(data), 4)}
    assert len(data) == -(-len(text.encode()) // 4) * 4


@pytest.mark.parametrize("tokenizer", [FAST, PIECEWISE], ids=["fast", "deepseek"])
def test_what_is_no_text_or_no_token_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="surrogate"):
        tokenizer.encode("a\ud800")
    for number in (-1, 2**32, 0xFFFFFFFE):
        with pytest.raises(ValueError, match="token id"):
            tokenizer.piece(number)


def test_ids_and_token_bytes_are_the_same_thing() -> None:
    assert token_ids(token_bytes([1, 2, 2**32 - 1])) == [1, 2, 2**32 - 1]
    assert token_bytes([1, 256]) == b"\x01\0\0\0\0\x01\0\0"


def words() -> Iterator[str]:
    number = 0
    while True:
        yield f"text number {number}"
        number += 1


def test_the_memo_is_bounded_and_keeps_what_is_used() -> None:
    memo = TextMemo(1_000)
    memo.put("kept", b"kept")
    for _, text in zip(range(10_000), words(), strict=False):
        memo.put(text, b"x")
        assert memo.get("kept") == b"kept"
        assert memo.size <= 2_000
    assert memo.get("text number 0") is None


def test_the_memo_leaves_out_what_is_larger_than_itself() -> None:
    memo = TextMemo(10)
    memo.put("a" * 11, b"x")
    assert memo.get("a" * 11) is None
