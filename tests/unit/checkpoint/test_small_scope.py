"""Two owners, two epochs, stopped at every pair of places: all orders of a small world are played, not a sample."""

import pytest
from protocol import Owner, World, stop_at_failpoints
from stepping import Process

from millstream.errors import Fenced

EPOCHS = 2


def life(owner):
    """A run: start, and work until two epochs are durable."""

    def work():
        owner.start()
        while owner.durable + 1 < EPOCHS:
            owner.epoch()

    return Process(work, is_coarse=True)


def places_of_a_life():
    process = life(Owner(World()))
    process.advance()
    assert process.error is None
    return len(process.passed)


def play(first, second, *, is_killed, comes_back):
    """The first owner stops at a place, the second takes over and stops at one, the first goes on, then the second."""
    world = World()
    one = life(Owner(world))
    is_over = one.advance(first)
    if is_killed:
        one.kill()
    two = life(Owner(world))
    two.advance(second)
    world.check()
    if not is_over and not is_killed:
        one.advance()
        assert one.error is None or isinstance(one.error, Fenced), one.error
        world.check()
    if comes_back and not two.is_over:
        two.advance()
        # Nothing an earlier owner does may end the newest one.
        assert two.error is None, two.error
        world.check()
    else:
        two.kill()
    world.heal()
    world.check_rows_are_the_oracle()
    return one.error, two.error


@pytest.mark.parametrize(("is_killed", "comes_back"), [(True, True), (True, False), (False, True), (False, False)])
def test_every_pair_of_places(monkeypatch, is_killed, comes_back):
    stop_at_failpoints(monkeypatch)
    count = places_of_a_life()
    assert count > 30
    fenced = 0
    for first in range(count + 1):
        for second in range(count + 1):
            errors = play(first, second, is_killed=is_killed, comes_back=comes_back)
            fenced += isinstance(errors[0], Fenced)
    assert (fenced > 0) != is_killed
