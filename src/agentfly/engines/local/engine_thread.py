"""The thread that steps the model, and the commands that other threads send to it.

Commands run between two steps in the order of arrival. When the thread ends, for any reason, every
waiter and every command that is left fails with an EngineError that gives the reason.
"""

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from agentfly.engines.local.core import Core
from agentfly.engines.local.job import Job, Reply
from agentfly.engines.local.shards import single_threaded
from agentfly.errors import AgentFlyError, EngineError
from agentfly.types import Weights

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Command:
    run: Callable[[], None]
    reply: Reply | None = None


class EngineThread:
    """Steps a core until it is closed."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._commands: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._end: EngineError | None = None
        self._pauses = 0
        self._closing: list[Reply] = []

    def submit(self, job: Job) -> None:
        """Queue a job; its reply gets the completion or an EngineError."""
        self._post(_Command(lambda: self._core.scheduler.submit(job), job.reply))

    def abandon(self, job: Job) -> None:
        """Give up a job."""
        self._post(_Command(lambda: self._core.scheduler.abandon(job)))

    def publish(self, weights: Weights, version: int, reply: Reply) -> None:
        """Change the weights between two steps, then answer."""
        self._post(_Command(lambda: self._answer(reply, weights, version), reply))

    def pause(self, reply: Reply) -> None:
        """Stop stepping, then answer. Pauses add up: each needs its `resume`."""

        def pause() -> None:
            self._pauses += 1
            reply.give(None)

        self._post(_Command(pause, reply))

    def resume(self) -> None:
        """Take back one pause."""

        def resume() -> None:
            self._pauses -= 1

        self._post(_Command(resume))

    def close(self, reply: Reply) -> None:
        """End the thread, then answer."""
        self._post(_Command(lambda: self._closing.append(reply), reply))

    def join(self) -> None:
        """Wait until the thread has ended, after it answered to `close`."""
        if self._thread is not None:
            self._thread.join()

    def _post(self, command: _Command) -> None:
        with self._lock:
            if self._end is None:
                self._commands.put(command)
                self._start()
                return
        if command.reply is not None:
            command.reply.fail(_copy(self._end))

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="agentfly-engine", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        end = EngineError("the engine was closed")
        try:
            single_threaded()
            self._work()
        except BaseException as error:  # noqa: BLE001 - every waiter gets the error; there is no other caller
            _log.exception("the local engine's thread died")
            end = _death_by(error)
        self._finish(end)

    def _work(self) -> None:
        while not self._closing:
            self._run_commands()
            if not self._pauses and not self._closing:
                self._core.step()

    def _run_commands(self) -> None:
        """Run all queued commands; wait for one if there is nothing else to do."""
        while True:
            idle = not self._closing and (self._pauses > 0 or not self._core.scheduler.busy)
            try:
                command = self._commands.get(block=idle)
            except queue.Empty:
                return
            self._do(command)

    def _do(self, command: _Command) -> None:
        try:
            command.run()
        except BaseException as error:
            # It has left the queue: its waiter would not get the error with the others.
            if command.reply is not None:
                command.reply.fail(_death_by(error))
            raise

    def _answer(self, reply: Reply, weights: Weights, version: int) -> None:
        try:
            self._core.publish(weights, version)
        except AgentFlyError as error:
            # The caller's error, found before any weight was changed: the engine goes on.
            reply.fail(error)
        else:
            reply.give(None)

    def _finish(self, end: EngineError) -> None:
        with self._lock:
            self._end = end
        waiting = [job.reply for job in self._core.scheduler.jobs]
        while not self._commands.empty():
            reply = self._commands.get().reply
            waiting += [reply] if reply is not None else []
        for reply in waiting:
            reply.fail(_copy(end))
        self._core.close()
        for reply in self._closing:
            reply.give(None)


def _death_by(error: BaseException) -> EngineError:
    death = EngineError(f"the engine's thread died: {type(error).__name__}: {error}")
    death.__cause__ = error
    return death


def _copy(error: EngineError) -> EngineError:
    """Return a copy for each waiter: a raised exception carries its raiser's traceback."""
    copied = EngineError(*error.args)
    copied.__cause__ = error.__cause__
    return copied
