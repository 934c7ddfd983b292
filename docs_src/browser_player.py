"""A player for a page of one's own, served here from a folder."""

import json
import tempfile
import threading
from collections.abc import Generator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

from agentfly import Agent, Task
from agentfly.environments import PlayerModel, Say, Scene, call
from agentfly.environments.browser import BROWSER, BrowserOptions

if BROWSER.requires() is not None:
    print(BROWSER.requires())  # what to install
    raise SystemExit

folder = Path(tempfile.mkdtemp())
(folder / "index.html").write_text("<button onclick='this.disabled = true'>Add a mug</button>")
server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder))
threading.Thread(target=server.serve_forever, daemon=True).start()
row = {
    "start": f"http://127.0.0.1:{server.server_port}/",
    "instruction": "Put a mug into the cart.",
    "check": "document.querySelector('button').disabled",
}
(folder / "cart.jsonl").write_text(json.dumps(row))


def expert(scene: Scene) -> Generator[Say, str, None]:
    # The page's lines are in the observation: [1] button "Add a mug"
    line = next(line for line in scene.observation.splitlines() if "Add a mug" in line)
    yield call("click", id=int(line.partition("]")[0].strip("[")))
    yield Say("Done.")


kit = BROWSER.make(BrowserOptions(site="own", rows=folder / "cart.jsonl"))
task = Task.from_row(next(iter(kit.tasks())))
player = PlayerModel(player=expert, task=task, random=Random(0))
agent = Agent(player, tools=kit.tools, reward=kit.reward, environment=kit.environment)
assert agent.run_sync(task).rewards == (1.0,)
server.shutdown()
