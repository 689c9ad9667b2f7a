"""Orders at a fixed rate, and the moments at which they were sent: `python -m benchmarks.connectors.steady_load …`.

Order `n` is of user `n % USERS`, so the m-th order of a user is known by its number, and a count that becomes visible says which
orders it holds. A chunk of orders is sent every hundredth of a second; where the machine does not let it, later.
"""

from __future__ import annotations

import array
import sys
import time
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.connectors.topics import PARTITIONS, USERS

CHUNKS_A_SECOND = 100


def user(number: int) -> int:
    """Of an order."""
    return number % USERS


def value(number: int) -> bytes:
    """An order as json."""
    return b'{"id": %d, "user": "user-%04d", "amount": 1.5, "at": %d, "city": "Dublin"}' % (
        number,
        user(number),
        number,
    )


def main() -> None:
    """Send until a file appears, then leave the moments of all chunks in another."""
    servers, topic, first, chunk, folder = (
        sys.argv[1],
        sys.argv[2],
        int(sys.argv[3]),
        int(sys.argv[4]),
        Path(sys.argv[5]),
    )
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "compression.type": "lz4"})
    moments, number, began = array.array("d"), first, time.time()
    while not (folder / "enough").exists():
        due = began + len(moments) / CHUNKS_A_SECOND
        time.sleep(max(0.0, due - time.time()))
        moments.append(time.time())
        for each in range(number, number + chunk):
            producer.produce(topic, value(each), partition=each % PARTITIONS)
        producer.poll(0)
        number += chunk
    producer.flush(60)
    part = folder / "moments.part"
    part.write_bytes(moments.tobytes())
    part.rename(folder / "moments")


if __name__ == "__main__":
    main()
