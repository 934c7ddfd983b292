"""What holds for all tests."""

import signal

# A shell starts what runs in its background deaf to Ctrl-C, and so would be all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
