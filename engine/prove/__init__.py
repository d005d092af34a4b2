"""Whether a launch can ever load from its second tier: a model's KV groups, a sweep of prompts, a word.

`launch` reads a `vllm serve` command, `model_config` (or vLLM itself, `vllm_groups`) finds the groups, `sweep` sends
prompts, `verdict` says what came of it. Importing starts nothing.
"""
