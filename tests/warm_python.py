"""Running Python programs in processes that have imported torch and transformers already.

The imports take three seconds of processor time for each new interpreter, so one interpreter
imports what the programs share and forks a process for each of them. Nothing of this project is
imported beforehand: a program that lacks an import still fails.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.patience import PATIENCE

_SERVER = """
import json, os, runpy, signal, sys, traceback

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
import transformers.models.llama.modeling_llama

def run(asked):
    write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(asked["output"], write), 1)
    os.dup2(os.open(asked["errors"], write), 2)
    os.chdir(asked["cwd"])
    sys.argv = [asked["path"]]
    sys.path[0] = os.path.dirname(asked["path"])
    signal.alarm(int(asked["seconds"]))
    runpy.run_path(asked["path"], run_name="__main__")

for line in sys.stdin:
    pid = os.fork()
    if not pid:
        try:
            run(json.loads(line))
        except SystemExit:
            raise
        except BaseException:
            traceback.print_exc()
            sys.exit(1)
        sys.exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(1, f"{code}\\n".encode())
"""


class WarmPython:
    """An interpreter that forks a process for each program."""

    def __init__(self, server: "subprocess.Popen[str]", folder: Path) -> None:
        self._server = server
        self._folder = folder

    def run(self, program: Path, *, cwd: Path) -> str:
        """Run a program as `python -W error program` would, and return its standard output."""
        output, errors = self._folder / "output.txt", self._folder / "errors.txt"
        files = {"output": output, "errors": errors}
        asked = {"path": program, "cwd": cwd, "seconds": PATIENCE, **files}
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(json.dumps(asked, default=str), file=self._server.stdin, flush=True)
        code = self._server.stdout.readline().strip()
        printed = output.read_text()
        said = f"{printed}\n{errors.read_text()}"
        assert code == "0", f"{program.name} ended with code {code or 'unknown'}:\n{said}"
        return printed


@contextmanager
def started(folder: Path) -> Iterator[WarmPython]:
    """Start the interpreter, and end it after the block."""
    command = [sys.executable, "-W", "error", "-c", _SERVER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        yield WarmPython(server, folder)
