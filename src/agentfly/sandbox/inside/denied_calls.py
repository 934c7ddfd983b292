"""The reviewed list of system calls that code in a sandbox may not make, each group with its why.

Namespaces, Landlock and lost capabilities already refuse most of them; the list is there because
each is a way into parts of the kernel that no program in a sandbox has business with. A number
beyond the newest that was reviewed is refused too, so a newer kernel opens nothing.

Numbers are those of x86_64 and aarch64; None where that processor has no such call. From 424 on
they are the same everywhere.
"""

from typing import NamedTuple

NEWEST_REVIEWED = 462
"""mseal, of Linux 6.10."""


class Number(NamedTuple):
    """A system call's number on each processor."""

    x86_64: int | None
    aarch64: int | None


def _everywhere(number: int) -> Number:
    return Number(number, number)


NAMESPACES = {
    "unshare": Number(272, 97),
    "setns": Number(308, 268),
}
"""A nested user namespace would give back every capability, inside it."""

MOUNTS = {
    "mount": Number(165, 40),
    "umount2": Number(166, 39),
    "pivot_root": Number(155, 41),
    "chroot": Number(161, 51),
    "open_tree": _everywhere(428),
    "move_mount": _everywhere(429),
    "fsopen": _everywhere(430),
    "fsconfig": _everywhere(431),
    "fsmount": _everywhere(432),
    "fspick": _everywhere(433),
    "mount_setattr": _everywhere(442),
    "quotactl": Number(179, 60),
    "quotactl_fd": _everywhere(443),
    "swapon": Number(167, 224),
    "swapoff": Number(168, 225),
    "name_to_handle_at": Number(303, 264),
    "open_by_handle_at": Number(304, 265),
}
"""The view of the file system stays as it was given; no file is opened but by its path."""

OTHER_PROCESSES = {
    "ptrace": Number(101, 117),
    "process_vm_readv": Number(310, 270),
    "process_vm_writev": Number(311, 271),
    "process_madvise": _everywhere(440),
    "process_mrelease": _everywhere(448),
    "kcmp": Number(312, 272),
    "pidfd_getfd": _everywhere(438),
    "migrate_pages": Number(256, 238),
    "move_pages": Number(279, 239),
}
"""Looking into, or steering, another process."""

LARGE_ATTACK_SURFACE = {
    "bpf": Number(321, 280),
    "perf_event_open": Number(298, 241),
    "userfaultfd": Number(323, 282),
    "io_uring_setup": _everywhere(425),
    "io_uring_enter": _everywhere(426),
    "io_uring_register": _everywhere(427),
    "add_key": Number(248, 217),
    "request_key": Number(249, 218),
    "keyctl": Number(250, 219),
    "fanotify_init": Number(300, 262),
    "fanotify_mark": Number(301, 263),
    "lookup_dcookie": Number(212, 18),
    "nfsservctl": Number(180, 42),
    "modify_ldt": Number(154, None),
    "uselib": Number(134, None),
    "vmsplice": Number(278, 75),
}
"""Interfaces from which kernel exploits have come, and whose state is not per namespace.

io_uring would also make calls on behalf of a process that no filter sees.
"""

MEMORY_OUTSIDE_THE_LIMITS = {
    "memfd_create": Number(319, 279),
    "memfd_secret": _everywhere(447),
    "shmget": Number(29, 194),
    "shmat": Number(30, 196),
    "shmctl": Number(31, 195),
    "msgget": Number(68, 186),
    "semget": Number(64, 190),
    "mq_open": Number(240, 180),
    "set_mempolicy": Number(238, 237),
    "mbind": Number(237, 235),
    "set_mempolicy_home_node": _everywhere(450),
    "io_setup": Number(206, 0),
    "landlock_create_ruleset": _everywhere(444),
    "landlock_add_rule": _everywhere(445),
    "landlock_restrict_self": _everywhere(446),
    "seccomp": Number(317, 277),
}
"""Memory that outlives its mapping, or is the kernel's own, so that no limit counts it.

One descriptor of a ruleset holds megabytes of rules; `io_setup` draws on a number that the whole
machine shares.
"""

NAMED_SOCKETS = {
    "socket": Number(41, 198),
    "connect": Number(42, 203),
    "bind": Number(49, 200),
    "listen": Number(50, 201),
    "accept": Number(43, 202),
    "accept4": Number(288, 242),
    "setsockopt": Number(54, 208),
}
"""All sockets but pairs: a filter can't see which address a call names.

A socket in a folder that a sandbox may read leads to the process that listens there, and the queue
of one that listens holds hundreds of megabytes. A larger buffer of a pair would do the same.
"""

WATCHES_ON_FILES = {
    "inotify_init": Number(253, None),
    "inotify_init1": Number(294, 26),
    "inotify_add_watch": Number(254, 27),
}
"""Telling when somebody else, in another sandbox or outside, opens a file that both can read."""

THE_MACHINE = {
    "reboot": Number(169, 142),
    "kexec_load": Number(246, 104),
    "kexec_file_load": Number(320, 294),
    "init_module": Number(175, 105),
    "finit_module": Number(313, 273),
    "delete_module": Number(176, 106),
    "iopl": Number(172, None),
    "ioperm": Number(173, None),
    "acct": Number(163, 89),
    "syslog": Number(103, 116),
    "settimeofday": Number(164, 170),
    "clock_settime": Number(227, 112),
    "adjtimex": Number(159, 171),
    "clock_adjtime": Number(305, 266),
    "sethostname": Number(170, 161),
    "setdomainname": Number(171, 162),
    "vhangup": Number(153, 58),
    "personality": Number(135, 92),
}
"""Calls that concern the whole machine. `personality` would switch address randomization off."""

DENIED = {
    **NAMESPACES,
    **MOUNTS,
    **OTHER_PROCESSES,
    **LARGE_ATTACK_SURFACE,
    **MEMORY_OUTSIDE_THE_LIMITS,
    **NAMED_SOCKETS,
    **WATCHES_ON_FILES,
    **THE_MACHINE,
}
"""All of them: refused with EPERM, which programs handle."""

CLONE = Number(56, 220)
CLONE3 = Number(435, 435)
"""Refused as if it did not exist (its flags are out of a filter's sight): libc falls back."""
SOCKETPAIR = Number(53, 199)
IOCTL = Number(16, 29)
PRCTL = Number(157, 167)
MMAP = Number(9, 222)
FLOCK = Number(73, 32)
"""Does nothing, and reports success: see `LOCK_COMMANDS`."""
FCNTL = Number(72, 25)

AF_UNIX = 1
"""The only family of a pair: asyncio and multiprocessing wake themselves through them."""
DATAGRAMS = 2
"""The bit that sets SOCK_DGRAM and SOCK_RAW apart: such a pair could still send to a name."""
FORBIDDEN_IOCTLS = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C}
"""Typing into a terminal on behalf of the person before it."""
FORBIDDEN_PRCTLS = {"PR_SET_PDEATHSIG": 1, "PR_SET_DUMPABLE": 4, "PR_SET_SECCOMP": 22}
"""Untying itself from its server; hiding from the watch over its memory; see `seccomp`."""
MAP_SHARED, MAP_ANONYMOUS, MAP_HUGETLB = 0x01, 0x20, 0x40000
"""Shared memory without a file stays when it is unmapped or given back in part, and is then
counted nowhere; huge pages come from a reserve of the machine."""

FILE_COMMANDS = {
    "F_DUPFD": 0,
    "F_GETFD": 1,
    "F_SETFD": 2,
    "F_GETFL": 3,
    "F_SETFL": 4,
    "F_GETLK": 5,
    "F_SETOWN": 8,
    "F_GETOWN": 9,
    "F_SETSIG": 10,
    "F_GETSIG": 11,
    "F_SETOWN_EX": 15,
    "F_GETOWN_EX": 16,
    "F_OFD_GETLK": 36,
    "F_DUPFD_QUERY": 1027,
    "F_DUPFD_CLOEXEC": 1030,
    "F_GETPIPE_SZ": 1032,
    "F_GET_SEALS": 1034,
}
"""All that `fcntl` may do. The others change an inode that sandboxes and the host may share
(leases, notification, write hints), or enlarge a pipe's buffer."""
LOCK_COMMANDS = {"F_SETLK": 6, "F_SETLKW": 7, "F_OFD_SETLK": 37, "F_OFD_SETLKW": 38}
"""Locks that are granted without being set.

A filter can't tell a sandbox's own file from one that it shares with others, where a lock would
pass a bit to them, or keep the host from its own file. Refused, they would cost SQLite, `shelve`
and HDF5, which lock every file that they open.
"""
