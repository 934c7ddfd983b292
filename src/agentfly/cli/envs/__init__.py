"""`agentfly envs`: list, describe, play, demonstrate and serve the built-in environments."""

from agentfly.cli.lazy_group import LazyCommand, lazy_group

COMMANDS = {
    "list": LazyCommand(
        "agentfly.cli.envs.listing:list_",
        "List the environments, including those of installed packages.",
    ),
    "info": LazyCommand(
        "agentfly.cli.envs.info:info",
        "Show an environment's options, tools, prompt and one of its tasks.",
    ),
    "play": LazyCommand(
        "agentfly.cli.envs.play:play",
        "Play an environment yourself: you see what a model sees, and get the reward it would get.",
    ),
    "demonstrate": LazyCommand(
        "agentfly.cli.envs.demonstrate:demonstrate",
        "Let a scripted player attempt tasks, and print its mean reward.",
    ),
    "serve": LazyCommand(
        "agentfly.cli.envs.serve:serve", "Serve an environment over HTTP until Ctrl-C."
    ),
}

envs = lazy_group(
    COMMANDS, about="The built-in environments: list, info, play, demonstrate, serve."
)
