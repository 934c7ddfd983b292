"""The program of the fork server, which confines each sandbox: standard library only.

Nothing here imports the rest of the package, because everything that the server imports is in the
memory of every sandbox.
"""
