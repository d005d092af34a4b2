"""The A/A harness: the client-side judgements on simulated targets, healthy under noise and broken by known sizes."""
