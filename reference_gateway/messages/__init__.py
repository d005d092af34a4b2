"""The Anthropic Messages entry: translation to OpenAI Chat and back, or forwarding to a Messages upstream."""
