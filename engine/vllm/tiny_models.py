"""Makes tiny models with random weights, and the tokenizer and chat templates they share. Run by vLLM's interpreter:

    python -P tiny_models.py FOLDER [KIND ...]

Each KIND becomes FOLDER/KIND, the same bytes on every machine with the same packages: weights and vocabulary come from
fixed seeds. The models cannot answer anything; what they are for is that their caches behave as those of the
architecture they are of. They never end an answer by themselves and emit printable ASCII only, so that counts and
texts can be compared. Imports nothing of this project.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

TEMPLATES = Path(__file__).parent / "templates"
VOCABULARY = 4_096
CONTEXT = 131_072
SEED = 20_260_817
WINDOW = 128
END, PAD = "<|end|>", "<|pad|>"
SPECIAL = (PAD, "<|start|>", END, "<tool_call>", "</tool_call>", "<think>", "</think>")

WORDS = """
a about after again all also an and any are argument as at back be because been before begins below between block body
branch buffer build but by bytes cache call can case change changed channel check class client code command commit
config content context copy count current data default define delete description directory do does done each else empty
end engine entry error every example exists expected false field file files filter find first fixed folder follow for
format found from function gateway get given git go group has have header here history how identity if import in index
input instructions into is it item its keep key kind last latest length less line lines list local log long look made
main make many match may message messages method model module more most move must name names new next no none not note
now null number object of off old on once one only open option or order other out output over parameters part pass path
pattern place plain prefix print project prompt property python question range read reads ready reason record report
request required response result results return returns right root rule run same search second section see send server
session set shape short should show side since size so some source stable stand start state still stop store stream
string strip system table take task test tests text than that the their them then there these they thing this those
through time to token tokens tool tools true turn two type under until unused update upstream usage use used user users
uses value values version wait was way were what when where which while who will with without word work workspace write
writes written wrong yes you your
""".split()  # noqa: SIM905 - a list of 300 words a line each would be no easier to read


def corpus(lines: int = 6_000) -> list[str]:
    """Lines of prose, code and JSON from a fixed seed: what a vocabulary for coding sessions is trained on."""
    rng = random.Random(SEED)
    pick = rng.choice

    def some(count: int) -> str:
        return " ".join(pick(WORDS) for _ in range(count))

    forms: tuple[Callable[[], str], ...] = (
        lambda: some(rng.randint(6, 18)).capitalize() + ".",
        lambda: f"    def {pick(WORDS)}_{pick(WORDS)}(self, {pick(WORDS)}: str) -> None:",
        lambda: f"        return self.{pick(WORDS)}.{pick(WORDS)}({rng.randint(0, 999)})",
        lambda: json.dumps({"type": "function", "name": pick(WORDS), "description": some(9)}),
        lambda: json.dumps({pick(WORDS): {"type": "string", "description": some(6)}, "required": [pick(WORDS)]}),
        lambda: f"src/{pick(WORDS)}/{pick(WORDS)}.py:{rng.randint(1, 400)}: {some(5)}",
        lambda: f"{rng.getrandbits(64):016x} {some(3)} {rng.randint(0, 99_999)}",
    )
    return [pick(forms)() for _ in range(lines)]


def make_tokenizer(folder: Path) -> Any:
    """Train the vocabulary and write tokenizer and chat templates; `tools-first` is the default template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    core.train_from_iterator(corpus(), trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token=END, pad_token=PAD, bos_token=None, model_max_length=CONTEXT
    )
    tokenizer.chat_template = (TEMPLATES / "tools-first.jinja").read_text(encoding="utf-8")
    tokenizer.save_pretrained(folder)
    for template in TEMPLATES.glob("*.jinja"):
        shutil.copy(template, folder)
    return tokenizer


def _sizes(tokenizer: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "max_position_embeddings": CONTEXT,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": None,
        "tie_word_embeddings": False,
    }


def _alternating(layers: int) -> list[str]:
    return ["sliding_attention", "full_attention"] * (layers // 2)


def llama(sizes: dict[str, Any]) -> Any:
    """Two layers of full attention: one KV group."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, **sizes))


def gemma3(sizes: dict[str, Any]) -> Any:
    """Windows of 128 tokens and full attention in turns: two KV groups."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    config = Gemma3TextConfig(
        num_hidden_layers=4,
        sliding_window=WINDOW,
        layer_types=_alternating(4),
        query_pre_attn_scalar=32,
        **sizes,
    )
    return Gemma3ForCausalLM(config)


def cohere2(sizes: dict[str, Any]) -> Any:
    """As Gemma3, but vLLM counts this architecture's window as one more than its config says: 129."""
    from transformers import Cohere2Config, Cohere2ForCausalLM

    config = Cohere2Config(
        num_hidden_layers=4,
        sliding_window=WINDOW,
        layer_types=_alternating(4),
        **(sizes | {"tie_word_embeddings": True}),
    )
    return Cohere2ForCausalLM(config)


def deepseek_v3(sizes: dict[str, Any]) -> Any:
    """Multi-head latent attention, dense layers."""
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

    own = {name: value for name, value in sizes.items() if name != "head_dim"} | {"num_key_value_heads": 2}
    config = DeepseekV3Config(
        num_hidden_layers=2,
        first_k_dense_replace=2,
        q_lora_rank=None,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        qk_nope_head_dim=32,
        v_head_dim=32,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        moe_intermediate_size=64,
        **own,
    )
    return DeepseekV3ForCausalLM(config)


def k_exaone(sizes: dict[str, Any]) -> Any:
    """Windows and full attention in turns; `add_mtp_layer` gives it the layer it drafts with."""
    from transformers import ExaoneMoeConfig, ExaoneMoeForCausalLM

    config = ExaoneMoeConfig(
        num_hidden_layers=4,
        sliding_window=WINDOW,
        layer_types=_alternating(4),
        mlp_layer_types=["dense"] * 4,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=64,
        **sizes,
    )
    return ExaoneMoeForCausalLM(config)


KINDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "llama": llama,
    "gemma3": gemma3,
    "cohere2": cohere2,
    "deepseek-v3": deepseek_v3,
    "k-exaone": k_exaone,
}


def spread_weights(model: Any, silent: list[int]) -> None:
    """Draw weights wide enough that the next token depends on the context, and keep `silent` tokens from being said."""
    import torch

    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.dim() >= 2:
                scale = 1.0 if "embed" in name else 1.5 * weights.shape[-1] ** -0.5
                weights.copy_((torch.randn(weights.shape) * scale).to(weights.dtype))
        model.get_output_embeddings().weight[silent] = 0.0


def add_mtp_layer(folder: Path) -> None:
    """Add K-EXAONE's multi-token-prediction layer, which transformers leaves out, to the saved weights and config."""
    import torch
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = load_file(path)
    width = tensors["model.norm.weight"].shape[0]

    def drawn(*shape: int) -> Any:
        return (torch.randn(*shape) * shape[-1] ** -0.5).to(torch.bfloat16)

    for name in [name for name in tensors if name.startswith("model.layers.0.")]:
        like = tensors[name]
        new = name.replace("model.layers.0.", "mtp.layers.0.")
        tensors[new] = drawn(*like.shape) if like.dim() > 1 else like.clone()
    tensors["mtp.fc.weight"] = drawn(width, 2 * width)
    for name in ("norm", "pre_fc_norm_hidden", "pre_fc_norm_embedding"):
        tensors[f"mtp.{name}.weight"] = torch.ones(width, dtype=torch.bfloat16)
    save_file(tensors, path, metadata={"format": "pt"})
    _edit_json(folder / "config.json", num_nextn_predict_layers=1)


def _edit_json(path: Path, **values: object) -> None:
    held = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.write_text(json.dumps(held | values, indent=1) + "\n", encoding="utf-8")


def make(kind: str, folder: Path) -> None:
    """Make one model in `folder`, which is replaced."""
    import torch

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tokenizer = make_tokenizer(folder)
    torch.manual_seed(SEED)
    model = KINDS[kind](_sizes(tokenizer)).to(torch.bfloat16)
    texts = [tokenizer.decode([token]) for token in range(len(tokenizer))]
    silent = [n for n, text in enumerate(texts) if text in SPECIAL or not (text.isascii() and text.isprintable())]
    spread_weights(model, silent)
    model.save_pretrained(folder)
    if kind == "k-exaone":
        add_mtp_layer(folder)
    # Answers of the same prompt are the same wherever a client names no temperature.
    (folder / "generation_config.json").write_text('{"do_sample": false, "temperature": 0.0}\n', encoding="utf-8")


def main(words: list[str]) -> int:
    folder, kinds = Path(words[0]), words[1:] or list(KINDS)
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        sys.stderr.write(f"no such model: {', '.join(unknown)}; choose from {', '.join(KINDS)}\n")
        return 2
    for kind in kinds:
        make(kind, folder / kind)
        size = sum(path.stat().st_size for path in (folder / kind).iterdir())
        sys.stdout.write(f"{kind}: {size / 1e6:.1f} MB\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
