r"""A checksum at the end of a JSON line, by which damage is found.

>>> line = add_checksum(b'{"v":2,"step":4}')
>>> line
b'{"v":2,"step":4,"crc":"d2feda98"}'
>>> has_valid_checksum(line), has_valid_checksum(line.replace(b"4", b"0", 1))
(True, False)
"""

import re
import zlib

KEY = "crc"
"""The last key of a line that has a checksum."""

_END = re.compile(rb',"crc":"([0-9a-f]{8})"\}\s*\Z')


def add_checksum(line: bytes) -> bytes:
    """Return a JSON object with the CRC-32 of its text as its last value."""
    return b'%s,"%s":"%08x"}' % (line[:-1], KEY.encode(), zlib.crc32(line))


def has_valid_checksum(line: bytes) -> bool:
    """Tell whether a line has a checksum, and is as it was written."""
    found = _END.search(line)
    return found is not None and zlib.crc32(line[: found.start()] + b"}") == int(found[1], 16)
