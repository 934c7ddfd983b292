"""The check of a chat template that `agentfly check` prints."""
