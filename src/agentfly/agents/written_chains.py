"""Recorded chains as messages that the run's own chat template renders as the model wrote them.

Where the template renders no tool calls, or the kind writes them as text, a message with
`tool_calls` would be rendered as an empty turn. There the turn's content is the sampled text, and
the messages around it are adapted as they were for the model: with the system prompt that explains
the tools. Chains of templates that render calls stay as they are.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from agentfly.agents.kind import KINDS
from agentfly.chat import TemplateRenderer
from agentfly.chat.formats import CallFormat
from agentfly.chat.reasoning import OpensReasoning
from agentfly.errors import ConfigError
from agentfly.observe.run_export import WrittenChain, as_recorded
from agentfly.types import Message, Trajectory, Turn


class ChainWriter:
    """Writes the chains of one run; it finds their kind by rendering their first prompts again.

    Args:
        renderer: Of the run's own tokenizer and template.
        kinds: Kind of agent by source, as the settings have it; it is tried first.
    """

    def __init__(self, renderer: TemplateRenderer, kinds: Mapping[str, str]) -> None:
        self._renderer = renderer
        self._kinds = kinds
        self._found: dict[object, TemplateRenderer] = {}
        self.unmatched = 0
        """Chains with calls that were left as they are: no built-in kind makes their prompts."""

    def __call__(self, chain: Trajectory) -> WrittenChain:
        """Write a chain as its messages were rendered."""
        renderer = self._renderer_of(chain)
        if renderer is None:
            self.unmatched += any(turn.message.tool_calls for turn in chain.turns)
            return as_recorded(chain)
        return as_recorded(chain) if renderer.capabilities.calls else _in_text(chain, renderer)

    def _renderer_of(self, chain: Trajectory) -> TemplateRenderer | None:
        key = (chain.task.source, tuple(tool.name for tool in chain.tools))
        known = self._found.get(key)
        for renderer in (known,) if known else self._candidates(chain):
            if renderer.open(chain.messages, chain.tools) == chain.turns[0].context_ids:
                self._found[key] = renderer
                return renderer
        return None

    def _candidates(self, chain: Trajectory) -> Iterator[TemplateRenderer]:
        own = self._kinds.get(chain.task.source)
        for name in sorted(KINDS, key=lambda name: name != own):
            try:
                call_format: CallFormat | None = KINDS[name]().format(chain.tools)
            except ConfigError:  # a kind that can't have these tools
                continue
            yield self._renderer.with_format(call_format) if call_format else self._renderer


def _in_text(chain: Trajectory, renderer: TemplateRenderer) -> WrittenChain:
    messages = list(chain.messages)
    for turn in chain.turns:
        messages += [_as_sampled(turn, renderer), *turn.replies]
    adapted = renderer.writer.adapted(messages, chain.tools)
    # Adapting may join and add messages, but never the assistant's.
    before = sum(message.role == "assistant" for message in chain.messages)
    places = [i for i, message in enumerate(adapted) if message.role == "assistant"]
    return WrittenChain(
        prompt=adapted[: places[before]],
        said=adapted[places[before] :],
        tools=chain.tools if renderer.capabilities.tools else (),
    )


def _as_sampled(turn: Turn, renderer: TemplateRenderer) -> Message:
    """Return a turn whose content is its sampled text.

    A turn whose reasoning the prompt has opened keeps it apart: its text begins in the middle.
    """
    opened = renderer.opens_reasoning is not OpensReasoning.NEVER
    if turn.completion is None or (opened and turn.message.reasoning is not None):
        return turn.message
    text = renderer.sampled_text(turn.completion)
    return replace(turn.message, content=text, reasoning=None, tool_calls=())
