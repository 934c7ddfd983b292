"""Parts for AgentFly that come from another package."""
