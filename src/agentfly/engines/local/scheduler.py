"""The choice of tokens that go through the model next: requests join and leave at every step.

    waiting ── admit: a slot, memory, and its prefix is not being computed ──▶ running
       ▲                                                                         │
       └── preempted (memory) or restarted (new weights), its tokens are kept ───┘

Lower priority numbers go first, then the order of arrival.
"""

import itertools
from bisect import insort

from agentfly.engines.local.job import Job
from agentfly.engines.local.key_values import KeyValues
from agentfly.engines.local.kv_cache import Cache, Counters
from agentfly.engines.local.span_attention import Span

Rank = tuple[int, int]


class Scheduler:
    """Owns every job from its submission to its end."""

    def __init__(
        self, cache: Cache, *, max_running: int, chunk: int, prefill_tokens: int, counters: Counters
    ) -> None:
        self._cache = cache
        self._max_running = max_running
        self._chunk = chunk
        self._prefill_tokens = prefill_tokens
        self._counters = counters
        self._arrivals = itertools.count()
        self._ranks: dict[Job, Rank] = {}
        self._waiting: list[Job] = []
        self._running: list[Job] = []

    @property
    def jobs(self) -> list[Job]:
        """All jobs, running and waiting."""
        return list(self._ranks)

    @property
    def busy(self) -> bool:
        """Whether there is any job."""
        return bool(self._ranks)

    def submit(self, job: Job) -> None:
        """Queue a job."""
        self._ranks[job] = (job.request.priority, next(self._arrivals))
        insort(self._waiting, job, key=self._ranks.__getitem__)

    def abandon(self, job: Job) -> None:
        """Drop a job and its chain's keys and values: the chain won't come back."""
        if self._ranks.get(job) is None:
            return
        if job.sequence is None:
            self._waiting.remove(job)
        else:
            self._running.remove(job)
            self._cache.drop(job.sequence)
        self._cache.forget(job.request.chain_id)
        del self._ranks[job]

    def finish(self, job: Job) -> None:
        """Retire a job; its keys and values wait for the chain's next turn."""
        del self._ranks[job]
        self._running.remove(job)
        assert job.sequence is not None
        self._cache.park(job.sequence)

    def extend(self, job: Job, token_id: int) -> None:
        """Give a running job its sampled token to compute next."""
        sequence = job.sequence
        while sequence is not None and not self._cache.grow(sequence, limit=job.limit):
            last = max(self._running, key=self._ranks.__getitem__)
            self._counters.preemptions += 1
            self._requeue(last)
            sequence = job.sequence
        if sequence is not None:
            sequence.append(token_id)

    def restart(self) -> None:
        """Forget all keys and values; jobs recompute theirs before they sample on."""
        for job in list(self._running):
            self._requeue(job)
        self._cache.drop_idle()

    def plan(self) -> list[tuple[Job, Span]]:
        """Admit jobs that fit, and return what to compute: all decoding, some prefill."""
        self._admit()
        budget = self._prefill_tokens
        spans: list[tuple[Job, Span]] = []
        for job in self._running:
            assert job.sequence is not None
            count = 1 if job.decodes else min(job.sequence.pending, self._chunk, budget)
            if count == 0:
                continue
            if not job.decodes:
                budget -= count
                self._counters.prefilled_tokens += count
            spans.append((job, Span(job.sequence, job.sequence.computed, count)))
        return spans

    def _admit(self) -> None:
        for job in list(self._waiting):
            if len(self._running) >= self._max_running:
                return
            if self._is_being_computed(job):
                continue
            sequence = self._cache.open(job.request.chain_id, job.ids, limit=job.limit)
            if sequence is None:
                # Later jobs don't overtake: a large one would starve.
                return
            self._start(job, sequence)

    def _start(self, job: Job, sequence: KeyValues) -> None:
        job.sequence = sequence
        job.reply.start()
        self._waiting.remove(job)
        self._running.append(job)

    def _is_being_computed(self, job: Job) -> bool:
        """Return whether another job is computing the beginning of this one."""
        prefix = self._cache.find(job.ids)
        return prefix is not None and prefix.ready < prefix.length

    def _requeue(self, job: Job) -> None:
        assert job.sequence is not None
        self._running.remove(job)
        self._cache.drop(job.sequence)
        job.sequence = None
        insort(self._waiting, job, key=self._ranks.__getitem__)
