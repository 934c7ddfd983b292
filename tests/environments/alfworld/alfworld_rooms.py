"""A room made by hand, so that every sentence about it can be written down in a test."""

from agentfly.environments.alfworld.engine.fast import FastEngine
from agentfly.environments.alfworld.engine.game import Game, Script
from agentfly.environments.alfworld.engine.goal import Goal
from agentfly.environments.alfworld.engine.problem import Problem

KITCHEN = """
(define (problem kitchen) (:domain alfred) (:objects )
(:init
    (atLocation agent1 loc_bar_0)
    (receptacleAtLocation Fridge_bar_1 loc_bar_1)  (receptacleType Fridge_bar_1 FridgeType)
    (receptacleAtLocation CounterTop_bar_1 loc_bar_2)
    (receptacleType CounterTop_bar_1 CounterTopType)
    (receptacleAtLocation Sink_bar_1_bar_SinkBasin loc_bar_2)
    (receptacleType Sink_bar_1_bar_SinkBasin SinkBasinType)
    (receptacleAtLocation Microwave_bar_1 loc_bar_3) (receptacleType Microwave_bar_1 MicrowaveType)
    (openable Fridge_bar_1) (openable Microwave_bar_1)
    (objectType Apple_bar_1 AppleType) (objectType Apple_bar_2 AppleType)
    (objectType Knife_bar_1 KnifeType) (objectType Mug_bar_1 MugType)
    (inReceptacle Apple_bar_1 Fridge_bar_1) (objectAtLocation Apple_bar_1 loc_bar_1)
    (inReceptacle Apple_bar_2 CounterTop_bar_1) (objectAtLocation Apple_bar_2 loc_bar_2)
    (inReceptacle Knife_bar_1 CounterTop_bar_1) (objectAtLocation Knife_bar_1 loc_bar_2)
    (inReceptacle Mug_bar_1 CounterTop_bar_1) (objectAtLocation Mug_bar_1 loc_bar_2)
    (pickupable Apple_bar_1) (pickupable Apple_bar_2) (pickupable Knife_bar_1)
    (pickupable Mug_bar_1) (isReceptacleObject Mug_bar_1)
    (cleanable Apple_bar_1) (cleanable Apple_bar_2) (heatable Apple_bar_1) (heatable Apple_bar_2)
    (coolable Apple_bar_1) (coolable Apple_bar_2) (sliceable Apple_bar_1) (sliceable Apple_bar_2)
    (canContain FridgeType AppleType) (canContain CounterTopType AppleType)
    (canContain SinkBasinType AppleType) (canContain CounterTopType KnifeType)
)
(:goal GOAL)
)
"""

HOT_APPLE = Goal(task_type="pick_heat_then_place_in_recep", item="apple", receptacle="fridge")


def kitchen(goal: Goal = HOT_APPLE) -> Script:
    text = KITCHEN.replace("GOAL", goal.to_pddl())
    return Script(problem=Problem.from_pddl(text), task=goal.sentence(), text=text)


def playing(*commands: str, goal: Goal = HOT_APPLE) -> FastEngine:
    """Return an engine after some commands, all of them possible."""
    engine = FastEngine(Game.of(kitchen(goal)))
    engine.start()
    for command in commands:
        assert engine.try_step(command), command
    return engine
