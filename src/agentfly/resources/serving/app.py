"""The requests that an environment server answers. `wire.py` describes them."""

from collections.abc import Sequence
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentfly.errors import ConfigError
from agentfly.resources import wire
from agentfly.resources.serving.sessions import Sessions
from agentfly.runtime.http.messages import RefusalError, json_answer, json_bytes, read_json


def routes(name: str, sessions: Sessions) -> Sequence[BaseRoute]:
    """Return the routes of the protocol.

    Args:
        name: The environment's name.
        sessions: The instances in clients' hands.
    """
    offered = {
        key: wire.plain_option(list(values)) for key, values in sessions.options.offered.items()
    }

    async def describe(request: Request) -> Response:
        return json_answer({"protocol": wire.PROTOCOL, "environment": name, "options": offered})

    async def open_session(request: Request) -> Response:
        body = await read_json(request)
        if unknown := body.keys() - {"options"}:
            raise _bad_request(f'unknown key {min(unknown):.100}: write {{"options": {{...}}}}')
        opened = await sessions.open(_client(request), body.get("options", {}))
        return json_answer(opened, HTTPStatus.CREATED)

    async def close_session(request: Request) -> Response:
        await sessions.close(request.path_params["session"])
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def use_session(request: Request) -> Response:
        session, attribute = request.path_params["session"], request.path_params["attribute"]
        if request.method != "POST":
            return json_bytes(await sessions.read(session, attribute))
        body = await read_json(request)
        try:
            call = wire.read_call(attribute, body, await request.body())
        except ConfigError as error:
            raise _bad_request(str(error)) from error
        return json_bytes(await sessions.call(session, attribute, call))

    return [
        Route("/", describe),
        Route("/sessions", open_session, methods=["POST"]),
        Route("/sessions/{session}", close_session, methods=["DELETE"]),
        Route("/sessions/{session}/{attribute}", use_session, methods=["GET", "POST"]),
    ]


def _bad_request(message: str) -> RefusalError:
    return RefusalError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def _client(request: Request) -> str:
    return request.client.host if request.client else "unknown"
