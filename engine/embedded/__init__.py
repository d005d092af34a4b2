"""An independent model of vLLM's prefix cache and host offload, served under vLLM's API and metric names.

`EngineCore` is the synchronous machine (add, step, abort); `create_app` wraps one core in HTTP. Importing this
package starts nothing.
"""

from engine.embedded.config import ConfigError, EngineConfig
from engine.embedded.core import EngineCore
from engine.embedded.http import create_app
from engine.embedded.requests import RequestResult, TokenEvent

__all__ = ["ConfigError", "EngineConfig", "EngineCore", "RequestResult", "TokenEvent", "create_app"]
