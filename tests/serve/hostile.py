"""A chain that tries to do harm wherever it is shown."""

from dataclasses import replace

from tests.observe.finished_groups import chain, group, turn

from agentfly.types import Group, Image, Message, ToolCall, ToolResult, ToolStatus

HOSTILE = (
    "<script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">"
    "</textarea><style>*{display:none}</style><a href=\"javascript:document.title='hacked'\">x</a>"
    "{{7*7}} ${alert(1)} \x1b]0;hacked\x07"
    "\x1b[2J\x1b[31mred\x00\x08\x7f\u202egnp.exe\u2028\ud83d \r\n"
)
_SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def hostile_group() -> Group:
    """Return a group of one chain with harm in every text that a model or a tool can choose."""
    said = turn(ToolStatus.ERROR)
    call = ToolCall(id="1", name=f"search{HOSTILE}", arguments=HOSTILE, problem=HOSTILE)
    harmful = replace(
        said,
        message=Message(role="assistant", content=HOSTILE, reasoning=HOSTILE, tool_calls=(call,)),
        results=(
            ToolResult(
                observation=HOSTILE,
                status=ToolStatus.ERROR,
                info={HOSTILE: HOSTILE},
                images=(Image(data=_SVG, media_type="image/svg+xml"),),
                state_key=HOSTILE,
            ),
        ),
        replies=(Message(role="tool", content=HOSTILE, name=HOSTILE),),
        state_key=HOSTILE,
    )
    return group(f"task {HOSTILE}", [chain(1.0, harmful, parts={HOSTILE: 1.0})])
