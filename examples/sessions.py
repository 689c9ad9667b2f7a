"""Session windows: the visits of each user, where half an hour of silence ends a visit.

Output:

    -- printed, epoch 1: 3 rows
    user  pages  first  last  minutes
    bob       1  home   home        0
    ann       3  home   cart       45
    ann       1  home   home        0
"""

import millstream as ms

CLICKS = [
    {"user": "ann", "page": "home", "at": "2024-05-01T09:00:00Z"},
    {"user": "bob", "page": "home", "at": "2024-05-01T09:05:00Z"},
    {"user": "ann", "page": "shoes", "at": "2024-05-01T09:20:00Z"},
    {"user": "ann", "page": "cart", "at": "2024-05-01T09:45:00Z"},
    {"user": "ann", "page": "home", "at": "2024-05-01T11:00:00Z"},
]

job = ms.Job("sessions", guarantee="at_least_once")
visits = (
    job.source("clicks", ms.memory(CLICKS), schema="user string, page string, at timestamp")
    .event_time("at", max_delay="1m")
    .key_by("user")
    .window(ms.session("30m"))
    .aggregate(pages=ms.count(), first=ms.first("page"), last=ms.last("page"), id="visits")
)
# A session's window ends the gap after its last row.
minutes = "(unix_seconds(window_end) - unix_seconds(window_start)) div 60 - 30"
visits.select("user", "pages", "first", "last", minutes=minutes).sink("printed", ms.print())

if __name__ == "__main__":
    job.run(local=True)
