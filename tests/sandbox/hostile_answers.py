"""Programs that disturb the channel over which their own interpreter answers.

Each runs as a cell. `CHANNEL` is the descriptor of the channel at the level in question.
"""

FORGE = """
import json, os, struct

def send(body):
    left = struct.pack("<I", len(body)) + body
    while left:
        left = left[os.write(CHANNEL, left):]

def answer(given=(), **fields):
    honest = {"number": NUMBER, "interrupted": False, "limit": None, "exit_code": None,
              "processes_ended": 0, "figures_left_out": 0,
              "parts": [[name, len(data)] for name, data in given]}
    head = json.dumps({**honest, **fields}).encode()
    return struct.pack("<I", len(head)) + head + b"".join(data for _, data in given)

def of_text(text):
    return answer([("stdout", text)])

def png(width, height, size=64):
    return struct.pack(">8s8xII", b"\\x89PNG\\r\\n\\x1a\\n", width, height).ljust(size, b"x")
"""
"""Defines `send`, and `answer`, which makes what an honest interpreter would send."""

ENDS = {
    "leaving": "import os; os._exit(0)",
    "leaving with a code": "import os; os._exit(3)",
    "killing itself": "import os, signal; os.kill(os.getpid(), signal.SIGKILL); os._exit(0)",
    "crashing": "import ctypes; ctypes.string_at(0)",
    "aborting": "import os; os.abort()",
    "becoming another program": "import os; os.execv('/bin/true', ['true'])",
    "leaving from a thread": (
        "import os, threading, time\n"
        "threading.Thread(target=os._exit, args=(0,)).start()\ntime.sleep(100)"
    ),
    "closing every descriptor": "import os; os.closerange(0, 1024)",
    "putting another file in the channel's place": (
        "import os; os.dup2(os.open('/dev/null', os.O_RDWR), CHANNEL); os._exit(0)"
    ),
}
"""Ways to end the process. The next cell finds a fresh interpreter."""

CLOSED_SOCKETS = {
    "shutting the channel": "import socket; socket.socket(fileno=200).shutdown(2)",
    "shutting the channel for writing": "import socket; socket.socket(fileno=200).shutdown(1)",
    "shutting the channel for reading, then leaving": (
        "import os, socket; socket.socket(fileno=200).shutdown(0); os._exit(0)"
    ),
}
"""For levels whose channel is a socket."""

NONSENSE = {
    "a death": "send(json.dumps({'died': {}}).encode())",
    "a death of wrong types": "send(json.dumps({'died': {'cause': [1], 'code': 'x'}}).encode())",
    "a death in a head": "send(answer(died={}, number=None))",
    "a failure to be born": "send(json.dumps({'failed': 'no'}).encode())",
    "nothing": "send(b'')",
    "one byte": "send(b'x')",
    "a head longer than the message": "send(struct.pack('<I', 99) + b'{}')",
    "a head longer than any": "send(struct.pack('<I', 5000) + b' ' * 5000)",
    "no JSON": "send(struct.pack('<I', 4) + b'what')",
    "no UTF-8": r"send(struct.pack('<I', 4) + b'\xff\xfe\xfd\xfc')",
    "a list": "send(struct.pack('<I', 2) + b'[]')",
    "deep JSON": "send(struct.pack('<I', 4000) + b'[' * 4000)",
    "deep objects": (
        "deep = b'{\"a\":' * 600 + b'1' + b'}' * 600\nsend(struct.pack('<I', len(deep)) + deep)"
    ),
    "a number with too many digits": (
        "long = b'{\"number\": ' + b'9' * 4000 + b'}'\nsend(struct.pack('<I', len(long)) + long)"
    ),
    "NaN for a number": "send(answer(number=float('nan')))",
    "infinity for a number": "send(answer(number=float('inf')))",
    "the number before": "send(answer(number=NUMBER - 1))",
    "the number after": "send(answer(number=NUMBER + 1))",
    "a number that equals the right one": "send(answer(number=float(NUMBER)))",
    "truth for a number": "send(answer(number=True))",
    "a text for a number": "send(answer(number=str(NUMBER)))",
    "lone surrogates for a limit": r"send(answer(limit='\ud800'))",
    "a limit that is none": "send(answer(limit='time'))",
    "a number for a limit": "send(answer(limit=1))",
    "a list for a limit": "send(answer(limit=[]))",
    "an exit code that is huge": "send(answer(exit_code=10 ** 3000))",
    "an exit code that is a fraction": "send(answer(exit_code=1.5))",
    "an exit code that is true": "send(answer(exit_code=True))",
    "an exit code that is an object": "send(answer(exit_code={}))",
    "minus one process": "send(answer(processes_ended=-1))",
    "a list of processes": "send(answer(processes_ended=[1]))",
    "a million figures": "send(answer(figures_left_out=10 ** 6))",
    "no list of parts": "send(answer(parts={}))",
    "a number of parts": "send(answer(parts=3))",
    "a part without a size": "send(answer(parts=[['stdout']]))",
    "a part of negative size": "send(answer(parts=[['stdout', -4], ['value', 4]]))",
    "a part of true size": "send(answer(parts=[['stdout', True]]) + b'x')",
    "a part of a size that is NaN": "send(answer(parts=[['stdout', float('nan')]]))",
    "a part larger than the message": "send(answer(parts=[['stdout', 10 ** 9]]))",
    "a part smaller than the message": "send(answer([('stdout', b'')]) + b'more')",
    "a part of no known name": "send(answer([('passwd', b'x')]))",
    "a part whose name is a list": "send(answer(parts=[[['stdout'], 0]]))",
    "the same part twice": "send(answer([('value', b'1'), ('value', b'2')]))",
    "a hundred parts": "send(answer([('image', png(1, 1))] * 100))",
    "nine images": "send(answer([('image', png(1, 1))] * 9))",
    "an image that is none": "send(answer([('image', b'GIF89a')]))",
    "an image that unpacks into a gigabyte": "send(answer([('image', png(1 << 16, 1 << 14))]))",
    "an image of no size": "send(answer([('image', png(0, 9))]))",
    "images of five megabytes": "send(answer([('image', png(9, 9, 5 << 20))]))",
    "an announcement of four gigabytes": "os.write(CHANNEL, b'\\xff' * 4)",
    "a file's content instead of a cell's": "send(answer([('content', b'x')]))",
}
"""What an honest interpreter never sends: it ends the sandbox, and raises nothing outside."""

LEGAL_LIES = {
    "an early answer": "send(of_text(b'done'))",
    "nothing but a number": "send(answer())",
    "texts of broken UTF-8": r"send(of_text(b'\xff\xfe\xed\xa0\x80'))",
    "a text with lone surrogates": (
        r"send(of_text('\ud800 \udfff'.encode('utf-8', 'surrogatepass')))"
    ),
    "a text of control characters": r"send(of_text(bytes(range(32)) * 100))",
    "a text far beyond the limit": "send(of_text(b'x' * 50_000))",
    "an interrupt that was none": "send(answer(interrupted=True))",
    "a limit that was not met": "send(answer(limit='memory'))",
    "a flag of another type": "send(answer(interrupted='yes'))",
}
"""What an honest interpreter might send: it is taken for the cell's result, within its limits."""

RANDOM = """
import random
lots = random.Random(SEED)

def anything(depth=0):
    kinds = [lambda: lots.choice([None, True, False]), lambda: lots.randint(-9, 9),
             lambda: 10 ** lots.randint(0, 400), lots.random,
             lambda: lots.choice([float("nan"), float("inf")]),
             lambda: "".join(chr(lots.randrange(0x11_0000)) for _ in range(lots.randrange(9)))]
    if depth < 4:
        kinds += [lambda: [anything(depth + 1) for _ in range(lots.randrange(4))],
                  lambda: {str(anything(9)): anything(depth + 1) for _ in range(lots.randrange(4))}]
    return lots.choice(kinds)()

def random_body():
    fields = ["number", "interrupted", "limit", "exit_code", "processes_ended", "parts"]
    how = lots.randrange(5)
    if how == 0:
        return lots.randbytes(lots.randrange(200))
    if how == 1:
        return json.dumps(anything()).encode()
    if how == 2:
        return answer(**{lots.choice(fields): anything()})
    parts = [(lots.choice(["stdout", "value", "error", "image", "x"]), lots.randbytes(9))
             for _ in range(lots.randrange(4))]
    body = bytearray(answer(parts, **{lots.choice(fields): anything()} if how == 3 else {}))
    for _ in range(lots.randrange(4)):
        body[lots.randrange(len(body))] = lots.randrange(256)
    return bytes(body)

for _ in range(lots.randrange(1, 4)):
    body = random_body()
    if lots.random() < 0.2:
        os.write(CHANNEL, struct.pack("<I", len(body) + lots.randrange(99)) + body)
        os._exit(0)
    send(body)
"""
"""Sends a few random messages, honest answers with random mistakes, or half a message."""


def program(code: str, *, channel: int, number: int, seed: int = 0) -> str:
    """Return a cell that is the request of this number and sends over this channel."""
    names = f"CHANNEL, NUMBER, SEED = {channel}, {number}, {seed}\n"
    return f"{names}{FORGE}\n{code}"
