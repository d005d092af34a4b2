"""Real vLLM: launch profiles, an installation for machines without a GPU, and what is needed around a running server."""
