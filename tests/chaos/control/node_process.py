"""A node of its own, or with `--dispatcher` the rounds of a dispatcher, until it is killed."""

import argparse
import logging
import signal
from pathlib import Path

from millstream.control.metadata.database import Metadata
from millstream.control.plane import ControlPlane, NodeOptions, RunningNode


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--database", required=True)
    asked.add_argument("--data", type=Path)
    asked.add_argument("--checkpoints", type=Path)
    asked.add_argument("--slots", type=int, default=16)
    asked.add_argument("--dispatcher", action="store_true")
    options = asked.parse_args()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("millstream.control.nodes").setLevel(logging.INFO)
    metadata = Metadata(options.database)
    if options.dispatcher:
        running = ControlPlane(metadata, None)
    else:
        places = (options.data, options.checkpoints, options.data / "artifacts", options.data / "keys.json")
        running = RunningNode(metadata, NodeOptions(*places, slots=options.slots))
    running.start()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    running.stop()
    metadata.close()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main()
