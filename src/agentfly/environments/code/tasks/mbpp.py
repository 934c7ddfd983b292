"""MBPP (arXiv:2108.07732): a sentence, and three assertions; the full set or the sanitized one."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import AliasChoices, BaseModel, Field

from agentfly.environments.code.tasks.program_template import Row
from agentfly.environments.code.tasks.records import read_records


class MbppRecord(BaseModel):
    """A line of the official files; the sanitized ones say `prompt` and `test_imports`."""

    task_id: int | str
    text: str = Field(validation_alias=AliasChoices("text", "prompt"))
    test_list: list[str] = Field(min_length=1)
    code: str | None = None
    test_setup_code: str = ""
    test_imports: list[str] = []
    challenge_test_list: list[str] = []


def mbpp_rows(path: Path) -> Iterator[Row]:
    """Read problems. The first assertion is shown, since the text does not name the function."""
    for _, record in read_records(path, MbppRecord):
        row = {
            "id": f"mbpp-{record.task_id}",
            "question": f"{record.text}\nYour code should satisfy:\n{record.test_list[0]}",
            "setup": "\n".join([*record.test_imports, record.test_setup_code]),
            "tests": [*record.test_list, *record.challenge_test_list],
        }
        if record.code is not None:
            row["solution"] = record.code.replace("\r\n", "\n")
        yield row
