"""What runs in the fork server and in each sandbox as it is born: standard library only.

Nothing here imports the rest of the package, because whatever the server imports is in the memory
of every sandbox.
"""
