"""Ways out of a sandbox, as code whose last expression is True if it got out.

`PLANTED` names what the test has planted outside. Those in HARMLESS are first run without any
sandbox, where they must succeed; those in HARMFUL and in BOMBS only ever run in a sandbox within
throw-away namespaces, and are no larger than it takes to meet a sandbox's limits.
"""

from tests.sandbox import hostile_answers as hostile

READ_SECRET = "open(PLANTED['secret']).read() == PLANTED['content']"

SYSTEM_CALL = """
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
ARM = platform.machine() == "aarch64"
def refused(x86_64, aarch64, *arguments):
    ctypes.set_errno(0)
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(aarch64 if ARM else x86_64), *wide)
    return result == -1 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS)
"""

LOCKS = """
import fcntl, os, struct
def granted(take):
    try:
        take()
    except BlockingIOError:
        return False
    return True
def in_another_process(take):
    child = os.fork()
    if child == 0:
        os._exit(granted(take))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
first, second = open(PLANTED["shared_file"]), open(PLANTED["shared_file"])
"""
"""Whether a lock holds is seen by whether a second one is still granted."""

HARMLESS = {
    "read a file outside": READ_SECRET,
    "list a folder outside": "import os; 'secret' in os.listdir(PLANTED['folder'])",
    "list the host's root": "import os; 'var' in os.listdir('/')",
    "follow a symlink outside": (
        "import os; os.symlink(PLANTED['secret'], 'link'); "
        "open('link').read() == PLANTED['content']"
    ),
    "hard-link a file outside": (
        "import os; os.link(PLANTED['secret'], 'hard'); open('hard').read() == PLANTED['content']"
    ),
    "climb out by dot-dot": (
        "import os; open(os.path.relpath(PLANTED['secret'])).read() == PLANTED['content']"
    ),
    "read through /proc/self/root": (
        "open('/proc/self/root' + PLANTED['secret']).read() == PLANTED['content']"
    ),
    "read the mounts in /proc": "'/' in open('/proc/self/mountinfo').read()",
    "find the owner in /proc": "import os; os.path.exists(f\"/proc/{PLANTED['pid']}\")",
    "read the owner's variables in /proc": (
        "b'PLANTED_VARIABLE' in open(f\"/proc/{PLANTED['pid']}/environ\", 'rb').read()"
    ),
    "see a neighbor's file": """
import os
roots = ["/box", "/tmp", "/dev/shm", PLANTED["folder"]]
any("neighbors-file" in names for root in roots for _, _, names in os.walk(root))
""",
    "connect to a service on loopback": """
import socket
with socket.create_connection(("127.0.0.1", PLANTED["port"]), timeout=2) as link:
    hello = link.recv(5)
hello == b"hello"
""",
    "send a datagram": """
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", PLANTED["port"])) == 1
""",
    "open a socket of any other family": """
import socket
def opened(family, kind):
    try:
        socket.socket(family, kind).close()
    except OSError:
        return False
    return True
any(opened(family, kind) for family in range(2, 46) for kind in (1, 2, 3, 5))
""",
    "connect to a socket in the file system": """
import socket
with socket.socket(socket.AF_UNIX) as link:
    link.settimeout(2)
    link.connect(PLANTED["unix"])
    hello = link.recv(5)
hello == b"hello"
""",
    "connect to an abstract socket": """
import socket
with socket.socket(socket.AF_UNIX) as link:
    link.settimeout(2)
    link.connect("\\0" + PLANTED["abstract"])
    hello = link.recv(5)
hello == b"hello"
""",
    "connect to a socket in a readable folder": """
import socket
with socket.socket(socket.AF_UNIX) as link:
    link.settimeout(2)
    link.connect(PLANTED["shared_socket"])
    hello = link.recv(5)
hello == b"hello"
""",
    "send a datagram to a socket in a readable folder": """
import socket
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
    sent = link.sendto(b"x", PLANTED["shared_datagrams"])
sent == 1
""",
    "send a datagram from a pair to a socket in a readable folder": """
import socket
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
ours.sendto(b"x", PLANTED["shared_datagrams"]) == 1
""",
    "lock a readable file (flock)": LOCKS
    + """
fcntl.flock(first, fcntl.LOCK_EX)
not granted(lambda: fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB))
""",
    "lock a file (fcntl)": LOCKS
    + """
with open("own", "w+") as one:
    fcntl.lockf(one, fcntl.LOCK_EX)
    held = not in_another_process(lambda: fcntl.lockf(one, fcntl.LOCK_EX | fcntl.LOCK_NB))
held
""",
    "lock a file (open file description)": LOCKS
    + """
def lock(file, kind):
    fcntl.fcntl(file, 37, struct.pack("hhqqi4x", kind, 0, 0, 0, 0))
with open("own", "w+") as one, open("own", "w+") as other:
    lock(one, fcntl.F_WRLCK)
    held = not granted(lambda: lock(other, fcntl.F_WRLCK))
held
""",
    "take a lease on a readable file": """
import fcntl
held = open(PLANTED["shared_file"])
fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_RDLCK) == 0
""",
    "leave a write hint on a readable file": """
import fcntl, struct
held = open(PLANTED["shared_file"])
fcntl.fcntl(held, 1036, struct.pack("Q", 3))
struct.unpack("Q", fcntl.fcntl(held, 1035, bytes(8)))[0] == 3
""",
    "watch a readable folder (inotify)": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(0)
if watch < 0 or libc.inotify_add_watch(watch, PLANTED["shared"].encode(), 0x20) < 0:
    raise PermissionError(ctypes.get_errno())
True
""",
    "watch a readable folder (dnotify)": """
import fcntl, os
fcntl.fcntl(os.open(PLANTED["shared"], os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_ACCESS) == 0
""",
    "touch a device": "import os; os.utime('/dev/null') is None",
    "use an inherited descriptor": """
import os
def inode(descriptor):
    try:
        return os.fstat(descriptor).st_ino
    except OSError:
        return None
PLANTED["inode"] in [inode(descriptor) for descriptor in range(1024)]
""",
    "read an inherited variable": "import os; 'PLANTED_VARIABLE' in os.environ",
    "read an inherited variable from memory": """
import ctypes
block, found, index = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ"), [], 0
while block[index]:
    found.append(block[index])
    index += 1
any(entry.startswith(b"PLANTED_VARIABLE") for entry in found)
""",
    "signal a process outside (signal 0)": "import os; os.kill(PLANTED['victim'], 0) is None",
    "take a handle on a process outside": "import os; os.pidfd_open(PLANTED['victim']) > 0",
    "learn the host's name": "import socket; socket.gethostname() == PLANTED['hostname']",
    "reach device nodes": "import os; os.path.exists('/dev/full') or os.path.exists('/dev/ptmx')",
    "hold memory in a shared mapping": "import mmap; len(mmap.mmap(-1, 1 << 20)) == 1 << 20",
    "hold memory in the queue of a socket": """
import socket
listener = socket.socket(socket.AF_UNIX)
listener.bind("queue")
listener.listen(4096)
with socket.socket(socket.AF_UNIX) as link:
    link.connect("queue")
    sent = link.send(bytes(1000))
sent == 1000
""",
    "enlarge a pipe": """
import fcntl, os
reading, writing = os.pipe()
fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1 << 17) == 1 << 17
""",
    "enlarge a socket's buffer": """
import socket
ours, theirs = socket.socketpair()
before = ours.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, before)
ours.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > before
""",
    "hide from the memory watch": "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0",
    "hold memory in a memfd": "import os; os.memfd_create('hold') > 0",
    "hold memory in a System V segment": """
import ctypes
libc = ctypes.CDLL(None)
segment = libc.shmget(0, 4096, 0o1600)
segment >= 0 and libc.shmctl(segment, 0, None) == 0
""",
    "make a nested user namespace": "import ctypes; ctypes.CDLL(None).unshare(0x10000000) == 0",
    "call clone3": """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(435, None, 0)
ctypes.get_errno() != errno.ENOSYS
""",
    "untie itself from its server": "import ctypes; ctypes.CDLL(None).prctl(1, 0, 0, 0, 0) == 0",
    "read the kernel's settings": "open('/proc/sys/kernel/core_pattern').read() != ''",
    "look into /sys": "import os; len(os.listdir('/sys')) > 0",
}

KILL_EVERYONE = "kill everyone"
HARMFUL = {
    "write beside the system's programs": "open('/usr/bin/evil', 'w') is not None",
    "write among the packages": "open(PLANTED['packages'] + '/evil.py', 'w') is not None",
    "write to the root": "import os; os.mkdir('/evil') is None",
    "change a system file's times": "import os; os.utime('/usr/bin/env') is None",
    "rename a system folder": "import os; os.rename('/etc', '/evil') is None",
    "become root": "import os; os.setuid(0) is None",
    "gain rights by set-uid": "import ctypes; ctypes.CDLL(None).prctl(39, 0, 0, 0, 0) != 1",
    "hold a capability": """
import ctypes
libc = ctypes.CDLL(None)
any(libc.prctl(23, number, 0, 0, 0) == 1 for number in range(41))
""",
    "raise a limit": """
import resource
soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
resource.setrlimit(resource.RLIMIT_NPROC, (hard + 1, hard + 1)) is None
""",
    "dump core": "import resource; resource.getrlimit(resource.RLIMIT_CORE) != (0, 0)",
    "make a device node": "import os, stat; os.mknod('disk', 0o600 | stat.S_IFBLK, 2048) is None",
    "open a terminal": "open('/dev/tty', 'w') is not None",
    "type into a terminal": """
import errno, fcntl
def typed(descriptor):
    try:
        fcntl.ioctl(descriptor, 0x5412, b"x")
    except OSError as error:
        return error.errno != errno.EPERM
    return True
any(typed(descriptor) for descriptor in (0, 1, 2))
""",
    "set the host's name": "import socket; socket.sethostname('evil') is None",
    "mount": SYSTEM_CALL + "not refused(165, 40, b'none', b'/box', b'tmpfs', 0, None)",
    "bind-mount the new way": SYSTEM_CALL + "not refused(428, 428, -100, b'/', 1)",
    "unmount the scratch folder": SYSTEM_CALL + "not refused(166, 39, b'/box', 2)",
    "change the root": SYSTEM_CALL + "not refused(161, 51, b'/box')",
    "pivot the root": SYSTEM_CALL + "not refused(155, 41, b'/box', b'/box')",
    "enter a namespace": SYSTEM_CALL + "not refused(308, 268, 0, 0)",
    "clone into a user namespace": SYSTEM_CALL
    + """
result = refused(56, 220, 0x10000000 | 17, 0, 0, 0, 0)
if os.getpid() != 1:
    os._exit(0)
not result
""",
    "trace a process outside": SYSTEM_CALL
    + "not refused(101, 117, 0x4206, PLANTED['victim'], 0, 0)",
    "be traced": SYSTEM_CALL + "not refused(101, 117, 0, 0, 0, 0)",
    "read another process's memory": SYSTEM_CALL + "not refused(310, 270, 1, None, 0, None, 0, 0)",
    "open a file by its handle": SYSTEM_CALL + "not refused(304, 265, -100, None, 0)",
    "load a kernel module": SYSTEM_CALL + "not refused(313, 273, -1, None, 0)",
    "use the keyring": SYSTEM_CALL + "not refused(250, 219, 0, -3, 0)",
    "add a key": SYSTEM_CALL + "not refused(248, 217, b'user', b'k', b'v', 1, -3)",
    "hold memory in rules of Landlock": SYSTEM_CALL
    + "not refused(444, 444, b'\\1' + bytes(7), 8, 0)",
    "load a filter of its own": SYSTEM_CALL + "not refused(317, 277, 1, 0, None)",
    "load a filter of its own by prctl": SYSTEM_CALL + "not refused(157, 167, 22, 2, None, 0, 0)",
    "set up asynchronous I/O": SYSTEM_CALL + "not refused(206, 0, 1, None)",
    "map huge pages": SYSTEM_CALL + "not refused(9, 222, 0, 2 << 20, 3, 0x40022, -1, 0)",
    "load a bpf program": SYSTEM_CALL + "not refused(321, 280, 0, None, 0)",
    "set up io_uring": SYSTEM_CALL + "not refused(425, 425, 1, None)",
    "watch performance events": SYSTEM_CALL + "not refused(298, 241, None, 0, -1, -1, 0)",
    "handle page faults": SYSTEM_CALL + "not refused(323, 282, 0)",
    "call what the list does not know": SYSTEM_CALL
    + "not refused(463, 463) or not refused(999, 999)",
    "call by the x32 interface": SYSTEM_CALL + "not refused(0x40000000 + 39, 0x40000000 + 39)",
    "kill a process outside": "import os; os.kill(PLANTED['victim'], 9) is None",
    KILL_EVERYONE: "import os; os.kill(-1, 9) is None",
}

REFUSALS = (
    "PermissionError: ",
    "ProcessLookupError: ",
    "OSError: [Errno 22] Invalid argument",  # Of a uid that the namespace does not know.
    "OSError: [Errno 30] Read-only file system",
    "ValueError: not allowed to raise maximum limit",
)
"""How an attempt may be stopped by an error; any other is a mistake in the attempt."""
ABSENCES = ("FileNotFoundError: ", "ConnectionRefusedError: ")
"""What those in HARMLESS may meet besides, as it is proven that what they look for is outside."""

BOMBS = {
    "fork bomb": (
        """
import os, time
for _ in range(100):
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
""",
        "error processes",
    ),
    "fork bomb in which every child forks": (
        """
import os
for _ in range(7):
    os.fork()
""",
        "error processes",
    ),
    "thread bomb": (
        """
import threading, time
for _ in range(100):
    threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
""",
        "error processes",
    ),
    "memory by allocation": ("x = bytearray(4 << 30)", "error memory"),
    "memory by private mapping": (
        "import mmap; mmap.mmap(-1, 4 << 30, flags=mmap.MAP_PRIVATE)",
        "error memory",
    ),
    "memory by shared mapping": (
        "import mmap; mmap.mmap(-1, 4 << 30, flags=mmap.MAP_SHARED)",
        "error None",
    ),
    "memory by many processes": (
        """
import os, time
for _ in range(8):
    if os.fork() == 0:
        held = b"x" * (50 << 20)
        time.sleep(30)
        os._exit(0)
time.sleep(30)
""",
        "killed memory",
    ),
    "memory by many processes of another program": (
        """
import subprocess, sys, time
hold = "import time; held = b'x' * (45 << 20); time.sleep(30)"
for _ in range(8):
    subprocess.Popen([sys.executable, "-I", "-S", "-c", hold])
time.sleep(30)
""",
        "killed memory",
    ),
    "memory by a program that can't be read": (
        """
import os, shutil, subprocess, sys, time
shutil.copy(os.path.realpath(sys.executable), "program")
os.chmod("program", 0o111)
hold = "import time; held = b'x' * (45 << 20); time.sleep(30)"
home = {"PYTHONHOME": sys.base_prefix}
for _ in range(8):
    subprocess.Popen(["./program", "-S", "-c", hold], env=home)
time.sleep(30)
""",
        "killed memory",
    ),
    "memory by shared mappings that are given back": (
        """
import mmap, os, time
for _ in range(4):
    reading, writing = os.pipe()
    if os.fork() == 0:
        held = mmap.mmap(-1, 80 << 20)
        for start in range(0, len(held), mmap.PAGESIZE):
            held[start] = 1
        held.madvise(mmap.MADV_DONTNEED)
        os.write(writing, b"x")
        time.sleep(30)
        os._exit(0)
    os.close(writing)
    if not os.read(reading, 1):
        raise PermissionError("not even one")
""",
        "error None",
    ),
    "memory by many processes that hide": (
        """
import ctypes, os, time
for _ in range(8):
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
        held = b"x" * (50 << 20)
        time.sleep(30)
        os._exit(0)
time.sleep(30)
""",
        "killed memory",
    ),
    "memory by page tables": (
        """
import ctypes, time
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, *[ctypes.c_size_t] * 5]
libc.mmap.restype = ctypes.c_void_p
for number in range(40_000):
    at = libc.mmap((1 << 44) + (number << 30), 4096, 1, 0x100022, 2**64 - 1, 0)
    ctypes.string_at(at, 1)
time.sleep(30)
""",
        "killed memory",
    ),
    "memory by sockets": (
        """
import os, socket, time
def fill(link):
    link.setblocking(False)
    try:
        while True:
            link.send(bytes(1 << 16))
    except BlockingIOError:
        pass
for _ in range(8):
    if os.fork() == 0:
        pairs = [socket.socketpair() for _ in range(110)]
        for pair in pairs:
            fill(pair[0])
            fill(pair[1])
        time.sleep(30)
        os._exit(0)
time.sleep(30)
""",
        "killed memory",
    ),
    "memory by files in /dev/shm": (
        """
for number in range(80):
    open(f"/dev/shm/{number}", "wb").write(b"x" * (1 << 20))
""",
        "error disk",
    ),
    "disk by many small files": (
        """
for number in range(8000):
    open(f"{number}", "w").close()
""",
        "error disk",
    ),
    "disk by many large files": (
        """
for number in range(80):
    open(f"{number}", "wb").write(b"x" * (1 << 20))
""",
        "error disk",
    ),
    "one file that is too large": (
        """
with open("large", "wb") as file:
    for _ in range(60):
        file.write(b"x" * (1 << 20))
""",
        "error file_size",
    ),
    "a sparse file": ("open('sparse', 'wb').truncate(1 << 40)", "error file_size"),
    "a flood of printing": (
        """
for _ in range(10_000):
    print("x" * 1000)
""",
        "error output",
    ),
    "a flood past Python's streams": (
        """
import os
for _ in range(10_000):
    os.write(1, b"x" * 1000)
""",
        "error output",
    ),
    "a flood from a program": ("import subprocess; subprocess.run(['yes'])", "ok output"),
    "an endless loop": ("while True: pass", "interrupted time"),
    "an endless sleep": ("import time; time.sleep(1000)", "interrupted time"),
    "an endless await": ("import asyncio; await asyncio.sleep(1000)", "interrupted time"),
    "waiting for an endless child": (
        "import subprocess; subprocess.run(['sleep', '1000'])",
        "interrupted time",
    ),
    "ignoring the interrupt": (
        """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True: pass
""",
        "killed time",
    ),
    "blocking the interrupt": (
        """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
while True: pass
""",
        "killed time",
    ),
    "swallowing the interrupt": (
        """
while True:
    try:
        sum(range(1000))
    except BaseException:
        pass
""",
        "killed time",
    ),
    "handling the interrupt with more work": (
        """
import signal, time
signal.signal(signal.SIGINT, lambda *_: time.sleep(1000))
time.sleep(1000)
""",
        "killed time",
    ),
    "answering in the owner's place": (
        """
import os
os.fork()
1
""",
        "ok None",
    ),
    "leaving a daemon behind": (
        """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
time.sleep(0.05)
""",
        "ok None",
    ),
    "leaving a daemon behind that can't be cleared away": (
        """
import os, sys, time
sys.modules["agentfly.sandbox.interpreter.main"]._end_other_processes = lambda: 0
if os.fork() == 0:
    os.setsid()
    time.sleep(1000)
""",
        "ok None",
    ),
    "speaking nonsense to the owner": (
        "import os; os.write(200, b'\\x04\\x00\\x00\\x00what')",
        "killed None",
    ),
    "announcing an endless message": (
        "import os; os.write(200, b'\\xff\\xff\\xff\\xff')",
        "killed None",
    ),
    "signaling its own group and session": (
        """
import os
for pid in (0, -1, -os.getpgrp()):
    try:
        os.kill(pid, 15)
    except ProcessLookupError:
        pass
""",
        "ok None",
    ),
    "raising what can't be described": (
        """
class Shy(Exception):
    def __str__(self): raise SystemExit
raise Shy
""",
        "error None",
    ),
    "raising with 3,000 contexts": (
        """
error = None
for number in range(3000):
    later = ValueError(number)
    later.__context__ = error
    error = later
raise error
""",
        "error None",
    ),
    "raising what passes for an exit": (
        """
class Leaving(Exception):
    __class__ = property(lambda self: SystemExit)
raise Leaving
""",
        "error None",
    ),
    **{
        name: (hostile.program(code, channel=200, number=1), "killed None")
        for name, code in {**hostile.ENDS, **hostile.CLOSED_SOCKETS}.items()
    },
    **{
        f"answering with {name}": (hostile.program(code, channel=200, number=1), "killed None")
        for name, code in hostile.NONSENSE.items()
    },
}
"""Bombs, floods and evasions, each with how it must end: status and limit."""

SUCCEED_WEAKENED = (
    "gain rights by set-uid",
    "hold a capability",
    "type into a terminal",
    "mount",
    "change the root",
    "enter a namespace",
    "trace a process outside",
    "read another process's memory",
    "open a file by its handle",
    "use the keyring",
    "add a key",
    "kill a process outside",
)
"""Those that any user brings off in the throw-away namespaces, if there is no sandbox in them; the
others need rights that are not to be had in there, or a kernel that not everybody has."""
GO_OFF_WEAKENED = (
    "fork bomb",
    "memory by shared mappings that are given back",
    "memory by files in /dev/shm",
    "disk by many small files",
)
"""Bombs that show that no wider limit stops them first."""
