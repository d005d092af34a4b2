"""What an embedded engine is made of: sizes, template, tokenizer, and what it reports."""

from dataclasses import dataclass
from typing import Literal, get_args

from engine.embedded.families import FAMILIES, NEWEST, Family, family_of
from engine.embedded.groups import Geometry, GroupError, KVGroup

TemplateName = Literal["tools-first", "system-first"]
TokenizerName = Literal["fast", "deepseek"]
WindowRule = Literal["vllm", "fixed"]


class ConfigError(ValueError):
    """A value no engine can be built from; the message says which and what to give instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """One embedded engine. Raises `ConfigError` when a value, or a combination, cannot work.

    Sizes: `block_size` in tokens; `num_blocks` in blocks, the null block included, so that the pool (L1) holds
    `(num_blocks - 1) * block_size` tokens; `chunk_blocks` is the number of blocks of one L2 chunk. L2 is sized by
    `l2_chunks` (chunks) or by `l2_bytes` (bytes, at `bytes_per_token`), not both; neither means no L2.
    `max_model_len` (tokens, prompt and output together) is the pool's size unless given; like vLLM, a length that the
    pool cannot hold is refused at start. `max_num_batched_tokens` is the most tokens one step computes (a longer prompt
    is prefilled over several steps), `max_num_seqs` the most requests running at once.

    `groups` are the KV cache groups (docs/kv-groups.md), `block_size` being the first one's; none means one full group.
    `vllm_version` (a release or a family's name) chooses whose rules they follow. `retention_interval` is vLLM's
    `--prefix-cache-retention-interval` in tokens: 0 keeps a window's tail where a prompt ends, more also every so many
    tokens, None everywhere. `drafter`: speculation is on, and where no group is marked as a draft group vLLM decides
    which are. `window_rule` "fixed" is not vLLM's: a window group that lacks its tail does not veto the load; the full
    groups are promoted and the windows recomputed. `copy_steps` is how many steps a transfer takes beyond its own.

    `offload_prompt_only` keeps generated tokens out of L2 (vLLM's default since 0.23). `prompt_tokens_details` is
    vLLM's `--enable-prompt-tokens-details`: off, usage has no such field at all. `step_interval` is the pause in
    seconds between two steps of the HTTP server (0: none); the core itself knows no time.
    """

    model: str = "embedded"
    served_names: tuple[str, ...] = ()
    block_size: int = 64
    num_blocks: int = 32_769
    chunk_blocks: int = 1
    l2_chunks: int | None = None
    l2_bytes: int | None = None
    bytes_per_token: int = 1_024
    groups: tuple[KVGroup, ...] = ()
    vllm_version: str = NEWEST
    retention_interval: int | None = 0
    drafter: bool = False
    window_rule: WindowRule = "vllm"
    copy_steps: int = 0
    offload_prompt_only: bool = True
    max_model_len: int | None = None
    max_num_batched_tokens: int = 8_192
    max_num_seqs: int = 256
    template: TemplateName = "tools-first"
    tokenizer: TokenizerName = "fast"
    prompt_tokens_details: bool = True
    step_interval: float = 0.0
    max_body_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        if not self.model or not all(self.served_names):
            raise ConfigError("a model name must not be empty")
        for name in (
            "block_size",
            "chunk_blocks",
            "bytes_per_token",
            "max_num_batched_tokens",
            "max_num_seqs",
            "max_body_bytes",
        ):
            _at_least(name, getattr(self, name), 1)
        self._check_groups()
        _at_least("num_blocks", self.num_blocks, 2, "block 0 is the null block and holds no tokens")
        if self.l2_chunks is not None and self.l2_bytes is not None:
            raise ConfigError("give l2_chunks or l2_bytes, not both")
        if self.l2_chunks is not None:
            _at_least("l2_chunks", self.l2_chunks, 0)
        if self.l2_bytes is not None:
            _at_least("l2_bytes", self.l2_bytes, 0)
            if 0 < self.l2_bytes < self.chunk_bytes:
                raise ConfigError(
                    f"l2_bytes={self.l2_bytes} is less than one chunk of {self.chunk_bytes} bytes: "
                    "give more, or 0 for no L2"
                )
        if self.max_model_len is not None:
            _at_least("max_model_len", self.max_model_len, 2, "one prompt token and one output token")
            if self.max_model_len > self.pool_tokens:
                raise ConfigError(
                    f"max_model_len={self.max_model_len} does not fit in the pool of {self.pool_tokens} tokens: "
                    "raise num_blocks or lower max_model_len"
                )
        elif self.pool_tokens < 2:
            raise ConfigError("the pool holds a single token: raise num_blocks or block_size")
        if self.template not in get_args(TemplateName):
            raise ConfigError(f"template={self.template!r}: choose one of {', '.join(get_args(TemplateName))}")
        if self.tokenizer not in get_args(TokenizerName):
            raise ConfigError(f"tokenizer={self.tokenizer!r}: choose one of {', '.join(get_args(TokenizerName))}")
        if not 0 <= self.step_interval <= 60:
            raise ConfigError(f"step_interval={self.step_interval}: give seconds between 0 and 60")

    def _check_groups(self) -> None:
        if self.groups and self.groups[0].block != self.block_size:
            raise ConfigError(
                f"block_size={self.block_size}, but the first KV group has blocks of {self.groups[0].block}: "
                "give the same for both"
            )
        try:
            geometry = self.geometry
        except GroupError as error:
            raise ConfigError(str(error)) from None
        if len(self.groups) > 255:
            raise ConfigError(f"{len(self.groups)} KV groups: at most 255 are possible")
        try:
            family_of(self.vllm_version)
        except KeyError:
            raise ConfigError(
                f"vllm_version={self.vllm_version!r}: the rules of {', '.join(FAMILIES)} are known"
            ) from None
        _at_least("copy_steps", self.copy_steps, 0)
        if self.window_rule not in get_args(WindowRule):
            raise ConfigError(f"window_rule={self.window_rule!r}: choose one of {', '.join(get_args(WindowRule))}")
        interval = self.retention_interval
        if interval:
            _at_least("retention_interval", interval, 0)
            if not geometry.window_ids:
                raise ConfigError("retention_interval is for window groups, and there is none: leave it at 0")
            if interval % geometry.step:
                raise ConfigError(
                    f"retention_interval={interval}: give a multiple of {geometry.step} tokens, where prefixes can end"
                )
            for number in geometry.window_ids if self.family.sparse_store and self.l2_capacity else ():
                if interval % (geometry.groups[number].block * self.chunk_blocks):
                    raise ConfigError(
                        f"retention_interval={interval}: give a multiple of the chunk of every window group"
                    )

    @property
    def geometry(self) -> Geometry:
        """The KV groups and what follows from them."""
        return Geometry(self.groups or (KVGroup(block=self.block_size),))

    @property
    def family(self) -> Family:
        """The rules of the vLLM release in question."""
        return family_of(self.vllm_version)

    @property
    def page_bytes(self) -> int:
        """Bytes of one block of any group: vLLM pads the pages of all groups to one size."""
        return self.block_size * self.bytes_per_token

    @property
    def names(self) -> tuple[str, ...]:
        """The model names requests may use; the first is the one metrics carry."""
        return self.served_names or (self.model,)

    @property
    def pool_tokens(self) -> int:
        """Tokens of one request L1 holds, in all groups; a window group takes a bounded number of blocks."""
        if not self.groups:
            return (self.num_blocks - 1) * self.block_size
        low, high = 0, (self.num_blocks - 1) * max(group.block for group in self.groups)
        while low < high:
            middle = (low + high + 1) // 2
            fits = self._blocks_for(middle) < self.num_blocks
            low, high = (middle, high) if fits else (low, middle - 1)
        return low

    def _blocks_for(self, tokens: int) -> int:
        count = 0
        for group in self.groups:
            most = tokens if group.window is None else min(tokens, group.window - 1 + self.max_num_batched_tokens)
            count += -(-most // group.block) + (group.windowed and most < tokens)
        return count

    @property
    def context_tokens(self) -> int:
        """Longest prompt plus output, in tokens."""
        return self.pool_tokens if self.max_model_len is None else self.max_model_len

    @property
    def chunk_tokens(self) -> int:
        """Tokens of one L2 chunk."""
        return self.chunk_blocks * self.block_size

    @property
    def chunk_bytes(self) -> int:
        """Bytes of one L2 chunk."""
        return self.chunk_tokens * self.bytes_per_token

    @property
    def l2_capacity(self) -> int:
        """Chunks L2 holds; 0 means there is no L2."""
        if self.l2_bytes is not None:
            return self.l2_bytes // self.chunk_bytes
        return self.l2_chunks or 0


def _at_least(name: str, value: object, least: int, why: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name}={value!r}: give a whole number of at least {least}{f' ({why})' if why else ''}")
