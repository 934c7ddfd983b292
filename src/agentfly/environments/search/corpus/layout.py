"""The files of a corpus.

    manifest.json   how many passages, how many words they overlap, the SHA-256 of all their bytes
    texts.bin       id, title and text of each, one after another, UTF-8
    bounds.i64      where each of these three begins, and at last the end: 3 × passages + 1
    hashes.u64      hashes of all ids, in order: a binary search finds one
    order.i64       which passage each of those hashes is of

All but the manifest are mapped into memory, so that processes share one copy of what they read.
"""

import hashlib

KIND = "corpus"
TEXTS = "texts.bin"
BOUNDS = "bounds.i64"
HASHES = "hashes.u64"
ORDER = "order.i64"


def hash_id(passage_id: str) -> int:
    """Hash an id to 64 bits.

    >>> hash_id("cats") == hash_id("cats") != hash_id("dogs")
    True
    """
    data = passage_id.encode(errors="replace")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest())
