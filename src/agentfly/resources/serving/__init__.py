"""An environment server: what another pool, in any language, leases over HTTP."""

from agentfly.resources.serving.server import environment_server, serve_environment

__all__ = ["environment_server", "serve_environment"]
