"""Calls from outside that fire a schedule: signed, fresh, and each of them once.

The signature is HMAC-SHA256, by the hook's secret, of the time, the id and the body, joined by dots. The id is signed with the
rest: a call that was overheard cannot be sent again under another one.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import re
from typing import NamedTuple

from millstream.errors import Domain, MillstreamError

FRESH = dt.timedelta(minutes=5)
"""How far a call's time may be from ours, in either direction."""
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_TIME = re.compile(r"[0-9]{1,11}")


class BadCall(MillstreamError, ValueError):
    """A call of a webhook that is not believed; it does not say more than it must."""

    code = "CTL-221"
    domain: Domain = "user"


class HookCall(NamedTuple):
    """A call as it came: its id and time (seconds since 1970), `sha256=<hex>`, and the body."""

    call_id: str
    time: str
    signature: str
    body: bytes


def signature_of(secret: bytes, time: str, call_id: str, body: bytes) -> str:
    """What a caller puts beside its call."""
    signed = b".".join([time.encode(), call_id.encode(), body])
    return f"sha256={hmac.new(secret, signed, hashlib.sha256).hexdigest()}"


def believe(secret: bytes, call: HookCall, now: dt.datetime) -> dt.datetime:
    """The time of a call that is signed and fresh.

    Raises:
        BadCall: (CTL-221) the signature is wrong, (CTL-222) the time is too far from ours, (CTL-223) the id or time has no form.
    """
    if not _ID.fullmatch(call.call_id) or not _TIME.fullmatch(call.time):
        msg = "webhook: the id or the time of the call is not in its form"
        known = "an id of 1 to 128 letters, digits, '_', '.', ':', '-'; whole seconds since 1970"
        raise BadCall(msg, code="CTL-223", known=known, hint="correct the headers of the call")
    wanted = signature_of(secret, call.time, call.call_id, call.body)
    if not hmac.compare_digest(wanted.encode(), call.signature.encode(errors="replace")):
        msg = "webhook: the signature does not fit"
        known = "sha256=<hex of HMAC-SHA256 over time.id.body>"
        raise BadCall(msg, code="CTL-221", known=known, hint="sign the body as it is sent, with this hook's secret")
    sent = dt.datetime.fromtimestamp(int(call.time), dt.UTC)
    if abs(now - sent) > FRESH:
        msg = "webhook: the call is not fresh"
        hint = "sign it when it is sent, and set the sender's clock"
        raise BadCall(msg, code="CTL-222", found=sent.isoformat(), known=f"within {FRESH} of now", hint=hint)
    return sent
