"""A kind of agent whose tools run, whatever random weights write."""

from typing import Any

from agentfly.types import Message, ToolCall


class Calling:
    """Reads every second answer, by its length, as a call of the tool `note`."""

    def open(self, task: Any, tools: Any, observation: Any) -> list[Message]:
        del tools, observation
        return [Message(role="user", content=task.fields["question"])]

    def read(self, message: Message) -> Message:
        if "<again>" in message.content or len(message.content) % 2:
            return message
        call = ToolCall(id="c", name="note", arguments='{"text": "ok"}')
        return Message(role="assistant", content=message.content, tool_calls=(call,))

    def reply(self, calls: Any, results: Any) -> list[Message]:
        del calls
        return [Message(role="user", content=result.observation) for result in results]
