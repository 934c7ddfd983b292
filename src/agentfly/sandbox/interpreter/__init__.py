"""The interpreter inside a sandbox: cells, commands and files, requested over a channel.

Standard library only. Foreign code runs in this very process, so nothing that it reports of itself
is trusted outside.
"""
