"""What is refused when a step is built, without a broker."""

import pytest

import millstream as ms
from millstream.errors import MillstreamError


def source(url):
    job = ms.Job("queues")
    return job.source("in", ms.rabbitmq("q", url=url, kind="queue"), schema="n long")


@pytest.mark.parametrize(
    "url",
    [
        "http://host/",
        "amqp:///",
        "amqp://host:99999/",
        "amqp://host:abc/",
        "amqp://host:0/",
        "amqp://[::1/",
        "host:5672",
    ],
)
def test_an_address_that_nobody_can_connect_to_is_refused(url):
    with pytest.raises(MillstreamError, match=r"CONN-005.*amqp://user"):
        source(url)


@pytest.mark.parametrize("url", ["amqp://me:${secret:PW}@host:5672/v", "amqps://host", "amqp://me:x@${secret:HOST}:1/"])
def test_addresses_may_name_secrets(url):
    source(url)
