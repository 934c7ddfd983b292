"""A web browser: Chromium, in which pages are read and used by numbers (arXiv:1802.08802).

chromium/      browser processes, contexts, tabs, and the script that lists a page's elements
sites/         the pages of tasks: MiniWoB, a generated office, the shop of `webshop`, users' own
experts/       scripted players of MiniWoB's tasks and of the other sites
snapshot       a page as numbered lines; actions: what can be done by number
environment    one chain's browser; tools: the nine tools on it
address        rules of addresses: what a page may load
"""

from agentfly.environments.browser.builtin import BROWSER
from agentfly.environments.browser.environment import BrowserSession
from agentfly.environments.browser.options import BrowserOptions

__all__ = ["BROWSER", "BrowserOptions", "BrowserSession"]
