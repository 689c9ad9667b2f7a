"""One window for all rows of a key: it fires after every two rows, with all of them or with those since; and at the end."""

import millstream as ms

ORDER_KEY = {"accumulating": ["user"], "discarding": ["user"], "purging": ["user"]}
WAYS = {
    "accumulating": {"trigger": ms.trigger.count(2)},
    "discarding": {"trigger": ms.trigger.count(2), "accumulation": "discarding"},
    "purging": {"trigger": ms.trigger.purging(ms.trigger.count(2))},
    "ending": {"trigger": ms.trigger.event_time()},
}


def job():
    job = ms.Job("global-window-trigger")
    keyed = job.source("in", ms.memory([]), schema="user string, amount long").key_by("user")
    for name, options in WAYS.items():
        keyed.window(ms.global_window(), **options).aggregate(total=ms.sum("amount"), pane=True, id=f"{name}-w").sink(
            name, ms.collect(name)
        )
    return job


def inputs():
    return {"in": [{"user": user, "amount": 2**i} for i, user in enumerate("aababbcaab")]}


def expected():
    """User a has 1, 2, 8, 128, 256; user b has 4, 16, 32, 512; user c has 64."""

    def panes(timing, **totals):
        return [
            {"user": user, "pane_index": index, "pane_timing": timing, "total": total}
            for user, found in totals.items()
            for index, total in enumerate(found)
        ]

    return {
        "accumulating": panes("EARLY", a=[3, 139], b=[20, 564]),
        "discarding": panes("EARLY", a=[3, 136], b=[20, 544]),
        "purging": panes("EARLY", a=[3, 136], b=[20, 544]),
        "ending": panes("ON_TIME", a=[395], b=[564], c=[64]),
    }
