"""Declaring agents: decorators, inheritance, added actions, and what is refused before anything runs."""

import pytest

from millstream.agents import Agent, AgentPlan, Event, InputEvent, PythonFunction, action
from millstream.agents.plan.compile import compile_agent


class Greeter(Agent):
    @action(InputEvent)
    def greet(event, ctx):
        """Without @staticmethod."""

    @staticmethod
    @action("greeted", "waved-back.v2")
    def answer(event, ctx):
        """Inside of @staticmethod."""

    @action("greeted", name="note")
    @staticmethod
    def written_down(event, ctx):
        """Outside of @staticmethod."""


class Polite(Greeter):
    @action("greeted")
    def answer(event, ctx):
        """Replaces that of the base class, and keeps its place."""

    @action("thanked")
    def bow(event, ctx):
        """Comes behind those that are inherited."""


def later(event, ctx):
    """Added to an object."""


def test_actions_come_in_the_order_of_their_declaration():
    assert list(Greeter().actions) == ["greet", "answer", "note"]
    assert Greeter().actions["answer"].listens_to == ("greeted", "waved-back.v2")


def test_actions_are_inherited_and_replaced_by_name():
    actions = Polite().actions
    assert list(actions) == ["greet", "answer", "note", "bow"]
    assert actions["answer"].function == PythonFunction(__name__, "Polite.answer")
    assert actions["greet"].function == PythonFunction(__name__, "Greeter.greet")


def test_actions_are_added_to_one_object():
    agent = Greeter().add_action("later", ["greeted"], later, limit=3)
    assert list(agent.actions) == ["greet", "answer", "note", "later"]
    assert agent.actions["later"].config == {"limit": 3}
    assert "later" not in Greeter().actions
    with pytest.raises(ValueError, match="has an action 'answer' already"):
        agent.add_action("answer", ["x"], later)


@pytest.mark.parametrize("triggers", [(), (3,), ("",), (Event,), ("a b",), ("x == 1",), (int,)])
def test_a_trigger_is_the_type_of_an_event(triggers):
    with pytest.raises(TypeError, match="listens to"):
        action(*triggers)


def test_what_is_no_action_is_refused():
    def lonely(event):
        """One argument."""

    def bound(self, event, ctx):
        """Three."""

    def stepped(event, ctx):
        yield

    for wrong, why in ((lonely, "without self"), (bound, "without self"), (stepped, "is a generator")):
        with pytest.raises(TypeError, match=why):
            Greeter().add_action("wrong", ["x"], wrong)
    with pytest.raises(TypeError, match="an action is a function"):
        action("x")(print)


def test_two_actions_of_one_class_share_no_name():
    class Twice(Agent):
        @action("x", name="same")
        def one(event, ctx):
            """First."""

        @action("x", name="same")
        def two(event, ctx):
            """Second."""

    with pytest.raises(ValueError, match="two actions 'same'"):
        compile_agent(Twice())


def test_an_agent_has_actions():
    with pytest.raises(ValueError, match="has no action"):
        compile_agent(Agent())


def test_a_plan_says_what_an_event_calls():
    plan = compile_agent(Polite().add_action("later", [InputEvent], later))
    assert plan.actions_by_event == {
        "_input_event": ["greet", "later"],
        "greeted": ["answer", "note"],
        "thanked": ["bow"],
    }


def test_a_plan_survives_json():
    plan = compile_agent(Polite().add_action("later", ["x"], later, limit=3))
    back = AgentPlan.from_json(plan.to_json())
    assert back == plan
    assert back.fingerprint == plan.fingerprint
    assert back.actions["later"].exec.as_callable() is later
    assert plan.fingerprint != compile_agent(Polite()).fingerprint
    with pytest.raises(ValueError, match="version 2"):
        AgentPlan.from_json({**plan.to_json(), "version": 2})
