"""Runs a command in place of this process, which the system kills when its parent ends, whatever ended that.

`python tests/servers/child.py PARENT COMMAND...`: a test run that is killed with -9 cannot stop the servers it started.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main():
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(parent):
            sys.exit("the parent has ended already")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
