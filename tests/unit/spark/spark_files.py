"""Writes a checkpoint as Spark 4.3 lays it out, with every checksum: two operators, two partitions, a snapshot at version 1."""

import json
import struct
import uuid
import zipfile
import zlib

import pyarrow as pa

from millstream.plan.epoch import EpochPlan

OPERATORS, PARTITIONS = 2, 2


def plan(epoch):
    return EpochPlan(epoch=epoch, now=1000 + epoch, sources={"rows": {"unit": epoch + 1}})


def digest(epoch):
    return plan(epoch).digest


def write_checked(file, content):
    """A file and the hidden checksum of the local file system."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    sums = b"".join(struct.pack(">I", zlib.crc32(content[at : at + 512])) for at in range(0, len(content), 512))
    file.with_name(f".{file.name}.crc").write_bytes(b"crc\0" + struct.pack(">I", 512) + sums)


def write_recorded(file, content):
    """A state file, with the checksum file that Spark itself writes."""
    write_checked(file, content)
    record = {"algorithm": "CRC32C", "value": 1, "mainFileSize": len(content), "timestampMs": 1}
    write_checked(file.with_name(f"{file.name}.crc"), json.dumps(record).encode())


def write_offset(folder, epoch):
    conf = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {"spark.sql.shuffle.partitions": str(PARTITIONS)}}
    text = f"v1\n{json.dumps(conf)}\n{json.dumps(plan(epoch).to_json())}"
    write_checked(folder / "offsets" / str(epoch), text.encode())


def write_commit(folder, epoch, ids):
    content = {
        "nextBatchWatermarkMs": 0,
        "stateUniqueIds": {str(op): [[uid] for uid in uids] for op, uids in ids.items()},
    }
    write_checked(folder / "commits" / str(epoch), f"v2\n{json.dumps(content)}".encode())


def packed(content):
    """One block and the end mark of an LZ4 stream as the JVM writes it."""
    body = pa.Codec("lz4_raw").compress(content, asbytes=True)
    block = struct.pack("<8sBiii", b"LZ4Block", 0x25, len(body), len(content), 0) + body
    return block + struct.pack("<8sBiii", b"LZ4Block", 0x15, 0, 0, 0)


def write_changelog(store, version, uid, lineage):
    listed = json.dumps([{"version": number, "checkpointUniqueId": each} for number, each in lineage]).encode()
    head = b"\0\2v4" + struct.pack(">H", len(listed)) + listed
    write_recorded(store / f"{version}_{uid}.changelog", packed(head + b"entries of the version " * 20))


def write_snapshot(store, version, uid):
    write_checked(store / "SSTs" / f"000008-{uid}.sst", b"sorted table" * 100)
    metadata = {"sstFiles": [{"localFileName": "000008.sst", "dfsSstFileName": f"000008-{uid}.sst", "sizeBytes": 1200}]}
    plain = store / f"{version}_{uid}.zip"
    with zipfile.ZipFile(plain, "w") as archive:
        archive.writestr("metadata", f"v1\n{json.dumps(metadata)}")
    write_recorded(plain, plain.read_bytes())


def write_operator(folder, operator):
    schema = folder / "state" / str(operator) / "_stateSchema" / "default" / f"0_{uuid.uuid4()}"
    write_checked(schema, b'\0\2v3\0\0\0\1\0\5pages{"type":"struct"}')
    info = {
        "operatorInfo": {"operatorId": operator, "operatorName": "transformWithStateInPySparkExec"},
        "stateStoreInfo": [
            {"storeName": "default", "numPartitions": PARTITIONS, "stateSchemaFilePaths": [f"file:{schema.resolve()}"]}
        ],
    }
    record = folder / "state" / str(operator) / "_metadata" / "v2" / "0"
    write_checked(record, f"v2\n{json.dumps(info)}".encode())


def write_checkpoint(folder, *, committed, begun=False):
    """Epochs 0 to `committed` are done; with `begun` the next one has an offset."""
    write_checked(folder / "metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
    chains = {(op, part): [] for op in range(OPERATORS) for part in range(PARTITIONS)}
    for operator in range(OPERATORS):
        write_operator(folder, operator)
    for epoch in range(committed + 1):
        write_offset(folder, epoch)
        for (operator, partition), chain in chains.items():
            store = folder / "state" / str(operator) / str(partition)
            uid = str(uuid.uuid4())
            write_changelog(store, epoch + 1, uid, chain)
            if epoch == 0:
                write_snapshot(store, 1, uid)
            chain.append((epoch + 1, uid))
        ids = {op: [chains[op, part][-1][1] for part in range(PARTITIONS)] for op in range(OPERATORS)}
        write_commit(folder, epoch, ids)
    if begun:
        write_offset(folder, committed + 1)
    return folder
