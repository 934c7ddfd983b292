"""Which tasks are held out: decided by their own contents, so that no seed can mix them."""

import hashlib


def is_held_out(key: str, *, one_in: int) -> bool:
    """Tell whether what is known by a key is kept for evaluation.

    >>> sum(is_held_out(str(number), one_in=8) for number in range(800))
    99
    """
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return int.from_bytes(digest) % one_in == 0
