"""Real vLLM: launch profiles, an installation for machines without a GPU, and a server's life from start to end."""
