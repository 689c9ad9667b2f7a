"""Branches and unions: one stream read twice, two streams made one, three sinks that commit together.

Output:

    -- large, epoch 0: 2 rows
    user  amount  via
    bob      300  phone
    ann      120  shop
    -- channels, epoch 1: 2 rows
    via    n
    shop   2
    phone  2
    -- totals, epoch 1: 3 rows
    user  total
    ann     120
    bob     315
    cat      40
"""

import millstream as ms

SHOP = [{"user": "ann", "amount": 120}, {"user": "bob", "amount": 15}]
PHONE = [{"user": "bob", "amount": 300}, {"user": "cat", "amount": 40}]
SCHEMA = "user string, amount long"

job = ms.Job("branches", guarantee="at_least_once")
shop = job.source("shop", ms.memory(SHOP), schema=SCHEMA).with_columns(via="'shop'")
phone = job.source("phone", ms.memory(PHONE), schema=SCHEMA).with_columns(via="'phone'")
orders = shop.union(phone, id="orders")

orders.filter("amount >= 100").sink("large", ms.print())
orders.key_by("user").aggregate(total=ms.sum("amount"), emit="end", id="by-user").sink("totals", ms.print())
orders.key_by("via").aggregate(n=ms.count(), emit="end", id="by-channel").sink("channels", ms.print())

if __name__ == "__main__":
    job.run(local=True)
