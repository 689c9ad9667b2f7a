"""What the job must have written, by plain Python over the lines of the input."""

import json
from collections import Counter

BELL_MS, WINDOW_MS = 5_000, 10_000


def expected(lines):
    """Per stream the multiset of rows; `lines` gives the text of every line per source, in order."""
    found = {name: Counter() for name in ("plain", "running", "bells", "latest", "windows", "dead")}
    seen, total, windows, bells = Counter(), Counter(), {}, set()
    for source, texts in lines.items():
        for text in texts:
            row = _parsed(text)
            if row is None or row["amount"] == 13:
                found["dead"][_letter(source, text, row)] += 1
                continue
            key = (source, row["key"])
            seen[key] += 1
            total[key] += row["amount"]
            if row["amount"] % 3 == 0:
                found["plain"][(source, row["seq"], row["key"], row["amount"], row["at"])] += 1
            found["running"][(*key, row["seq"], seen[key], total[key])] += 1
            window = (*key, row["at"] // WINDOW_MS * WINDOW_MS)
            n, summed = windows.get(window, (0, 0))
            windows[window] = (n + 1, summed + row["amount"])
            bells.add((*key, (row["at"] // BELL_MS + 1) * BELL_MS))
    found["bells"].update(bells)
    found["latest"].update((*key, n, total[key]) for key, n in seen.items())
    found["windows"].update((*window, *sums) for window, sums in windows.items())
    return found


def final_state(lines):
    """Per key the count and the sum that the process function must hold in the end."""
    return {(source, key): (n, total) for source, key, n, total in expected(lines)["latest"]}


def _parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def _letter(source, text, row):
    return (source, text) if row is None else ("checked", row["source"], row["seq"])
