"""A reference gateway: Anthropic Messages and OpenAI Chat in front of OpenAI-chat engines, done right.

It exists to show what the conformance suite asks for, and, with a named fault, what it must catch.

    from reference_gateway import Channel, GatewayConfig, create_app
    app = create_app(GatewayConfig(channels=[Channel(name="vllm", url="http://127.0.0.1:8000/v1", models=["m"])]))
"""

from .app import create_app
from .config import Channel, ConfigError, GatewayConfig, load_config
from .faults import FAULTS, Fault

__all__ = ["FAULTS", "Channel", "ConfigError", "Fault", "GatewayConfig", "create_app", "load_config"]
