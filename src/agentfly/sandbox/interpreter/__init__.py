"""What runs inside a sandbox: cells, commands and files, asked for over a channel.

Standard library only. Foreign code runs in this very process, so nothing that it says of itself is
trusted outside.
"""
