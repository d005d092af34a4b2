"""Chained block hashes over token bytes.

A block's key covers everything before it: `sha256(parent ‖ the block's token ids ‖ extra)`, with `NONE_HASH` as the
first block's parent. Token ids are 32-bit little-endian words. Only full blocks have a hash. The cache salt is an
extra key of the first block alone; the chain carries it to the rest (vLLM prefix-caching design).
"""

import sys
from array import array
from collections.abc import Sequence
from hashlib import sha256
from typing import TypeAlias

TokenIds: TypeAlias = "bytes | bytearray | memoryview | array[int] | Sequence[int]"

TOKEN_BYTES = 4
NONE_HASH = sha256(b"prefixproof: no parent block").digest()


def token_bytes(token_ids: TokenIds) -> bytes:
    """The ids as 32-bit little-endian words.

    Bytes are taken as such words already. Raises `ValueError` for a length that is no multiple of 4, and for ids
    outside 0..2**32-1.
    """
    if isinstance(token_ids, bytes | bytearray | memoryview):
        data = bytes(token_ids)
        if len(data) % TOKEN_BYTES:
            raise ValueError(f"token bytes come in words of {TOKEN_BYTES}, got {len(data)} bytes")
        return data
    if isinstance(token_ids, array) and token_ids.typecode == "I" and token_ids.itemsize == TOKEN_BYTES:
        words = token_ids
    else:
        try:
            words = array("I", token_ids)
        except (OverflowError, TypeError) as error:
            raise ValueError("token ids must be whole numbers between 0 and 2**32-1") from error
    if sys.byteorder == "big":
        words = array("I", words)
        words.byteswap()
    return words.tobytes()


def token_ids(data: bytes) -> list[int]:
    """Token bytes as a list of ids."""
    words = array("I", data)
    if sys.byteorder == "big":
        words.byteswap()
    return words.tolist()


def block_hash(parent: bytes, tokens: bytes, extra: bytes = b"") -> bytes:
    """Key of one full block after `parent`."""
    return sha256(parent + tokens + extra).digest()


def salt_key(cache_salt: str | None) -> bytes:
    """The salt as the first block's extra key; empty without one."""
    return b"" if cache_salt is None else b"salt:" + cache_salt.encode()


def block_hashes(tokens: bytes, block_size: int, cache_salt: str | None = None) -> list[bytes]:
    """Keys of the full blocks of `tokens` (token bytes), first to last; a partial last block has none."""
    width = block_size * TOKEN_BYTES
    hashes: list[bytes] = []
    parent = NONE_HASH
    extra = salt_key(cache_salt)
    for end in range(width, len(tokens) + 1, width):
        parent = block_hash(parent, tokens[end - width : end], extra)
        extra = b""
        hashes.append(parent)
    return hashes
