"""The embedded core beside vLLM's own scheduler: the same script for both, step by step, and what differs.

`scripts` says what a script is, `generate` makes random ones, `model_run` plays one on the embedded core, `vllm_child`
has vLLM play it in another environment (`vllm_worker`), `compare` names the first difference. Importing starts nothing.
"""
