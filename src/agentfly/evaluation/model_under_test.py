"""The evaluated model: an engine over a folder, or a chat server, given to the agents."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from math import inf
from pathlib import Path

from pydantic import BaseModel

from agentfly.agents import Agent
from agentfly.agents.model import load_weights, tokenizer_of
from agentfly.config.evaluation_settings import EvaluationSettings
from agentfly.engines import EngineSpec, OpenAIChat, make_engine
from agentfly.engines.openai.chat import Usage
from agentfly.errors import ConfigError, DeadlineError, HttpError
from agentfly.models import resolve_model
from agentfly.resources import EnvironmentManager
from agentfly.rollout import Limits
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_client import Call, Endpoint, HttpClient
from agentfly.runtime.http_retry import Retry
from agentfly.types import SamplingParams

ASK_SECONDS = 60.0
"""Seconds that a server has to list its models."""


@asynccontextmanager
async def with_model(
    agents: Mapping[str, Agent],
    settings: EvaluationSettings,
    folder: str | None,
    *,
    pool: EnvironmentManager,
    log_folder: Path,
    usage: Usage,
) -> AsyncIterator[dict[str, Agent]]:
    """Give every agent the evaluated model while the block runs.

    Args:
        agents: Agents without a model, by source.
        settings: They name the server or the engine.
        folder: The model's folder or name; None for a server.
        pool: Environments of all agents.
        log_folder: Folder for the logs of servers that are started.
        usage: Counts the tokens of a server.
    """
    async with AsyncExitStack() as stack:
        if folder is None:
            made = await _with_server(agents, settings, stack, usage)
        else:
            made = _with_engine(agents, settings, folder, stack, log_folder)
        yield {name: agent.with_pool(pool) for name, agent in made.items()}


def _limits(settings: EvaluationSettings) -> Limits:
    attempts = settings.attempts
    return Limits(
        max_turns=attempts.max_turns,
        context_length=attempts.context_length or inf,
        seconds=attempts.chain_seconds,
    )


def _sampling(settings: EvaluationSettings) -> SamplingParams:
    attempts = settings.attempts
    return SamplingParams(
        temperature=attempts.temperature, top_p=attempts.top_p, max_tokens=attempts.max_tokens
    )


async def _with_server(
    agents: Mapping[str, Agent],
    settings: EvaluationSettings,
    stack: AsyncExitStack,
    usage: Usage,
) -> dict[str, Agent]:
    url, concurrent = settings.model.url, settings.attempts.max_concurrent
    assert url is not None, "a model without a folder is on a server"
    key = settings.model.api_key_env
    server = Endpoint(url=url, api_key_env=key, max_concurrent=concurrent)
    chat = OpenAIChat(server, model=settings.model.name, seed=settings.seed)
    chat.usage = usage
    stack.push_async_callback(chat.close)
    return {
        name: agent.for_run(chat, sampling=_sampling(settings), limits=_limits(settings))
        for name, agent in agents.items()
    }


def _with_engine(
    agents: Mapping[str, Agent],
    settings: EvaluationSettings,
    folder: str,
    stack: AsyncExitStack,
    log_folder: Path,
) -> dict[str, Agent]:
    trusted = settings.model.trust_remote_code
    found = resolve_model(folder, trust_remote_code=trusted)
    ready = {
        name: agent.for_run(
            found,
            sampling=_sampling(settings),
            limits=_limits(settings),
            trust_remote_code=trusted,
            template_options=settings.model.template_options,
        )
        for name, agent in agents.items()
    }
    engine = make_engine(
        EngineSpec(
            settings=settings.engine,
            folder=found,
            load=partial(load_weights, found, trust_remote_code=trusted),
            tokenizer=tokenizer_of(next(iter(ready.values())).model.renderer),
            context_length=max(agent.limits.context_length for agent in ready.values()),
            concurrency=settings.attempts.max_concurrent,
            deterministic=settings.deterministic,
            log_folder=log_folder,
        )
    )
    stack.push_async_callback(engine.close)
    return {name: agent.with_engine(engine) for name, agent in ready.items()}


class _Served(BaseModel):
    id: str


class _ServedModels(BaseModel):
    data: list[_Served]


async def served_model(url: str, api_key_env: str | None) -> str:
    """Return the name of the only model that a server has.

    Raises:
        ConfigError: It has several, or does not say.
    """
    clock = LoopClock()
    client = HttpClient(Endpoint(url=url, api_key_env=api_key_env), clock)
    try:
        listed = await client.request(
            Call(path="/models", method="GET"),
            lambda answer: answer.json(_ServedModels, "a list of its models"),
            deadline=clock.now() + ASK_SECONDS,
            retry=Retry(attempts=1),
        )
    except (HttpError, DeadlineError) as error:
        raise ConfigError(
            f"{url} does not list its models: {error}. Check the address, which usually ends in "
            "/v1, or name the model with --server-model"
        ) from error
    finally:
        await client.close()
    names = [model.id for model in listed.data]
    if len(names) != 1:
        known = ", ".join(names) or "none"
        raise ConfigError(f"name the server's model with --server-model. {url} has: {known}")
    return names[0]
