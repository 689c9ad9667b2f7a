"""Changes as the connectors of two databases write them."""

import json


def postgres_source(**more):
    return {
        "version": "3.2.0.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": 1714566600123,
        "snapshot": "false",
        "db": "shop",
        "sequence": '["24023119","24023128"]',
        "ts_us": 1714566600123456,
        "ts_ns": 1714566600123456000,
        "schema": "public",
        "table": "orders",
        "txId": 555,
        "lsn": 24023128,
        "xmin": None,
        **more,
    }


def mysql_source(**more):
    return {
        "version": "3.2.0.Final",
        "connector": "mysql",
        "name": "shop",
        "ts_ms": 1714566600000,
        "snapshot": "true",
        "db": "shop",
        "sequence": None,
        "table": "orders",
        "server_id": 223344,
        "gtid": None,
        "file": "binlog.000003",
        "pos": 484,
        "row": 0,
        "thread": 7,
        "query": None,
        **more,
    }


def change(op, before=None, after=None, source=None, **more):
    """An envelope as a Python value."""
    origin = postgres_source() if source is None else source
    return {
        "before": before,
        "after": after,
        "source": origin,
        "transaction": None,
        "op": op,
        "ts_ms": 1714566600456,
        **more,
    }


def with_schema(payload):
    """The envelope beside what describes it, as a converter writes it that has schemas enabled."""
    fields = [
        {"type": "int64", "optional": False, "default": 0, "field": "id"},
        {
            "type": "bytes",
            "optional": True,
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "field": "amount",
        },
    ]
    row = {"type": "struct", "fields": fields, "optional": True, "name": "shop.public.orders.Value"}
    parts = [
        {**row, "field": "before"},
        {**row, "field": "after"},
        {"type": "string", "optional": False, "field": "op"},
    ]
    schema = {"type": "struct", "fields": parts, "optional": False, "name": "shop.public.orders.Envelope", "version": 2}
    return {"schema": schema, "payload": payload}


def written(value):
    return json.dumps(value).encode()
