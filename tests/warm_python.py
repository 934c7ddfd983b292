"""Running Python in processes that have imported torch, transformers and this package already.

The imports take four seconds of processor time for each new interpreter, so one interpreter
imports what the programs share and forks a process for each of them. A program that lacks an import
still fails: its own names are those that it imports itself.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.patience import PATIENCE

_SERVER = """
import atexit, gc, json, os, runpy, signal, sys, threading, traceback

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
import transformers.models.llama.modeling_llama
import agentfly.agents, agentfly.environments, agentfly.training
import agentfly.engines.local, agentfly.resources, agentfly.sandbox

def become(asked):
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.alarm(int(asked["seconds"]))
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["cwd"])
    added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [path for path in added if path and path not in sys.path]
    write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for number, mode in enumerate((os.O_RDONLY, write, write)):
        opened = os.open(asked["streams"][number], mode)
        if number == 0:  # From now on it has the terminal, if it is given one.
            os.write(1, f"{os.getpid()}\\n".encode())
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, closefd=False)
    sys.stdout, sys.stderr = (open(n, "w", buffering=1, closefd=False) for n in (1, 2))

def run(asked):
    become(asked)
    if asked["module"]:
        sys.argv[1:] = asked["arguments"]
        runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [asked["path"], *asked["arguments"]]
        sys.path[0] = os.path.dirname(asked["path"])
        runpy.run_path(asked["path"], run_name="__main__")

def finish(code):
    # As the interpreter ends, but for taking down every module that was imported, which costs
    # each process two seconds.
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)

gc.collect()
gc.freeze()  # What all processes share is left alone by their collectors.
for line in sys.stdin:
    asked = json.loads(line)
    if "wait" in asked:
        code = os.waitstatus_to_exitcode(os.waitpid(asked["wait"], 0)[1])
        os.write(1, f"{code}\\n".encode())
    elif not os.fork():
        try:
            run(asked)
        except SystemExit as end:
            finish(end.code)
        except BaseException:
            traceback.print_exc()
            finish(1)
        finish(0)
"""


class WarmPython:
    """An interpreter that forks a process for each program."""

    def __init__(self, server: "subprocess.Popen[str]", folder: Path) -> None:
        self._server = server
        self._folder = folder

    def run(self, program: Path, *, cwd: Path) -> str:
        """Run a program as `python -W error program` would, and return its standard output."""
        done = self.finish(program=program, cwd=cwd)
        said = f"{done.stdout}\n{done.stderr}"
        assert done.returncode == 0, f"{program.name} ended with code {done.returncode}:\n{said}"
        return done.stdout

    def finish(
        self, *arguments: str, cwd: Path, program: Path | None = None, module: str | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program or a module to its end, whichever that is."""
        output, errors = self._folder / "output.txt", self._folder / "errors.txt"
        streams = (os.devnull, output, errors)
        started = self.start(*arguments, program=program, module=module, cwd=cwd, streams=streams)
        code = started.wait()
        return subprocess.CompletedProcess(arguments, code, output.read_text(), errors.read_text())

    @contextmanager
    def agentfly(
        self, *arguments: str, cwd: Path, stdin: str = os.devnull, output: str
    ) -> Iterator["WarmProcess"]:
        """Start `python -W error -m agentfly.cli` with paths as its streams; kill it at the end.

        A terminal that is given becomes its own, so that Ctrl-C reaches it as a signal.
        """
        streams = (stdin, output, output)
        process = self.start(*arguments, module="agentfly.cli", cwd=cwd, streams=streams)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def start(
        self,
        *arguments: str,
        cwd: Path,
        streams: tuple[str | Path, str | Path, str | Path],
        program: Path | None = None,
        module: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> "WarmProcess":
        """Start a program or a module; it is killed when it takes too long."""
        asked = {"arguments": arguments, "cwd": cwd, "streams": streams, "seconds": PATIENCE}
        asked |= {"path": program, "module": module}
        return WarmProcess(
            self, self.ask(environment={**os.environ, **(environment or {})}, **asked)
        )

    def ask(self, **request: object) -> int:
        """Send a request to the interpreter, and return its answer."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(json.dumps(request, default=str), file=self._server.stdin, flush=True)
        return int(self._server.stdout.readline())


class WarmProcess:
    """A process that was forked from the interpreter, to be used as one of `subprocess`."""

    def __init__(self, python: WarmPython, pid: int) -> None:
        self._python = python
        self.pid = pid
        self._code: int | None = None

    def wait(self) -> int:
        """Return its exit code. Processes that are waited for meanwhile have to wait."""
        if self._code is None:
            self._code = self._python.ask(wait=self.pid)
        return self._code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless its end has been seen."""
        if self._code is None:
            os.kill(self.pid, number)


@contextmanager
def started(folder: Path) -> Iterator[WarmPython]:
    """Start the interpreter, and end it after the block."""
    command = [sys.executable, "-W", "error", "-c", _SERVER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        yield WarmPython(server, folder)
