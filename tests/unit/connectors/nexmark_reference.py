"""One Nexmark event at a time, in plain Python integers: slow, and easy to compare with the definition."""

import math

GOLDEN = 0x9E3779B97F4A7C15
MASK = 2**64 - 1
FIRST = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
LAST = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
CITIES = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
]
STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
HOT = ["Google", "Facebook", "Baidu", "Apple"]


def mix(z):
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 & MASK
    z ^= z >> 27
    z = z * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def h(i, f, seed=42):
    return mix(mix((seed + GOLDEN * (f + 1)) & MASK) + GOLDEN * (i + 1) & MASK)


class Event:
    """What event `n` is; `columns` gives its row."""

    def __init__(self, n, *, seed=42, rate=10_000, base=1_767_225_600_000, group=1):
        self.seed, self.rate, self.base = seed, rate, base
        k = 1 + n
        self.adjusted = k // group * group + k * 953 % group
        self.id = 1 + self.adjusted
        cycle, slot = divmod(self.id, 50)
        self.kind = "person" if slot < 1 else "auction" if slot < 4 else "bid"
        self.person = cycle
        self.auction = {"person": (cycle - 1) * 3 + 2, "auction": cycle * 3 + slot - 1, "bid": cycle * 3 + 2}[self.kind]

    def rand(self, f, n, i=None):
        return ((h(self.id if i is None else i, f, self.seed) >> 32) * n) >> 32

    def price(self, f):
        return math.floor(10 ** (6 * ((h(self.id, f, self.seed) >> 11) / 2**53)) * 100 + 0.5)

    def time(self, number):
        return self.base + int(number * (1e6 / self.rate)) // 1000

    def cold_person(self, f):
        people = self.person + 1
        active = min(people, 1000)
        return people - active + self.rand(f, active + 10)

    def filler(self, i, f, char):
        c = self.rand(f, 338, i)
        return char if c < 26 else chr(ord("a") + c % 26)

    def string(self, f, longest):
        length = 3 + self.rand(f, longest - 3)
        offset = self.rand(f + 1, 2**20 - length)
        return "".join(self.filler(offset + i, 65, " ") for i in range(length)).strip(" ")

    def extra(self, f, current, average):
        if current > average:
            return ""
        missing = average - current
        spread = round(0.2 * missing)
        length = missing - spread + (self.rand(f, 2 * spread) if spread else 0)
        offset = self.rand(f + 1, 2**20 - length)
        return "".join(chr(ord("a") + self.rand(64, 26, offset + i)) for i in range(length))

    def url(self, index):
        words = []
        for f in (70, 78, 86):
            length = 3 + self.rand(f, 2, index)
            words.append("".join(self.filler(index, f + 1 + c, "_") for c in range(length)))
        mark = ""
        if index < 10_000 and self.rand(94, 10, index) > 0:
            bits = int(format(index, "032b")[::-1], 2)
            bits = bits - 2**32 if bits >= 2**31 else bits
            mark = f"&channel_id={bits if bits == -(2**31) else abs(bits)}"
        return f"https://www.nexmark.com/{'/'.join(words)}/item.htm?query=1{mark}"

    def columns(self):
        row = getattr(self, f"{self.kind}_columns")()
        return {**row, "dateTime": self.time(self.adjusted), "event_id": self.id}

    def person_columns(self):
        name = f"{FIRST[self.rand(32, 11)]} {LAST[self.rand(33, 9)]}"
        email = f"{self.string(34, 7)}@{self.string(36, 5)}.com"
        card = " ".join(f"{self.rand(f, 10_000):04d}" for f in (38, 39, 40, 41))
        city, state = CITIES[self.rand(42, 10)], STATES[self.rand(43, 6)]
        size = 8 + sum(map(len, (name, email, card, city, state)))
        row = {"id": self.person + 1000, "name": name, "emailAddress": email, "creditCard": card, "city": city}
        return {**row, "state": state, "extra": self.extra(44, size, 200)}

    def auction_columns(self):
        initial, now = self.price(19), self.time(self.adjusted)
        item, description = self.string(22, 20), self.string(24, 100)
        horizon = self.time(self.adjusted + 5000 // 3) - now
        seller = self.person // 100 * 100 if self.rand(16, 4) > 0 else self.cold_person(17)
        return {
            "id": self.auction + 1000,
            "itemName": item,
            "description": description,
            "initialBid": initial,
            "reserve": initial + self.price(20),
            "expires": now + 1 + self.rand(21, max(2 * horizon, 1)),
            "seller": seller + 1000,
            "category": 10 + self.rand(18, 5),
            "extra": self.extra(26, 48 + len(item) + len(description), 500),
        }

    def bid_columns(self):
        lowest = max(self.auction - 100, 0)
        cold = lowest + self.rand(1, self.auction - lowest + 1 + 10)
        auction = self.auction // 100 * 100 if self.rand(0, 2) > 0 else cold
        bidder = self.person // 100 * 100 + 1 if self.rand(2, 4) > 0 else self.cold_person(3)
        is_hot = self.rand(5, 2) > 0
        index = 10_000 + self.rand(6, 4) if is_hot else self.rand(6, 10_000)
        return {
            "auction": auction + 1000,
            "bidder": bidder + 2000,
            "price": self.price(4),
            "channel": HOT[index - 10_000] if is_hot else f"channel-{index}",
            "url": self.url(index),
            "extra": self.extra(7, 32, 100),
        }
