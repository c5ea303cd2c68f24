from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from executor.admission.places import Answer, Places, retry_after_ms

TOOLS = {"one": 1, "two": 2, "many": 100}


def test_a_call_is_admitted_while_there_is_a_slot_then_queued_then_refused():
    places = Places(slots=1, queue_length=1)
    assert [places.ask(n, "many", 9) for n in range(3)] == [Answer.ADMITTED, Answer.QUEUED, Answer.FULL]


def test_without_a_queue_a_call_is_refused_at_once():
    places = Places(slots=1, queue_length=0)
    assert [places.ask(n, "many", 9) for n in range(2)] == [Answer.ADMITTED, Answer.FULL]


def test_the_first_that_waits_is_the_first_that_is_admitted():
    places = Places(slots=1, queue_length=9)
    for ticket in range(3):
        places.ask(ticket, "many", 9)
    assert places.leave(0) == (1,)
    assert places.leave(1) == (2,)


def test_a_tool_at_its_own_limit_waits_and_does_not_hold_up_another_tool():
    places = Places(slots=3, queue_length=9)
    assert places.ask(0, "one", 1) is Answer.ADMITTED
    assert places.ask(1, "one", 1) is Answer.QUEUED
    assert places.ask(2, "two", 2) is Answer.ADMITTED
    assert places.leave(0) == (1,)


def test_one_that_gives_up_makes_room_in_the_queue():
    places = Places(slots=1, queue_length=1)
    places.ask(0, "many", 9)
    places.ask(1, "many", 9)
    assert places.leave(1) == ()
    assert places.ask(2, "many", 9) is Answer.QUEUED


def test_leaving_twice_frees_one_slot():
    places = Places(slots=1, queue_length=9)
    for ticket in range(3):
        places.ask(ticket, "many", 9)
    assert places.leave(0) == (1,)
    assert places.leave(0) == ()


def test_no_number_of_slots_means_unlimited():
    with pytest.raises(ValueError, match="slots must be 1 or more"):
        Places(slots=0, queue_length=1)


def test_the_time_to_come_back_grows_with_the_queue_and_has_bounds():
    assert retry_after_ms(ahead=0, slots=8, held_ms=1) == 100
    assert retry_after_ms(ahead=3, slots=2, held_ms=1000) == 2000
    assert retry_after_ms(ahead=10_000, slots=1, held_ms=30_000) == 60_000


class AnyOrder(RuleBasedStateMachine):
    """Whatever the order of asking and leaving, the bounds hold and nobody is forgotten."""

    @initialize(slots=st.integers(1, 4), queue_length=st.integers(0, 4))
    def begin(self, slots, queue_length):
        self.slots, self.queue_length = slots, queue_length
        self.places = Places(slots=slots, queue_length=queue_length)
        self.tool_of, self.admitted, self.queued, self.next = {}, set(), [], 0

    @rule(tool=st.sampled_from(sorted(TOOLS)))
    def ask(self, tool):
        ticket, self.next = self.next, self.next + 1
        self.tool_of[ticket] = tool
        answer = self.places.ask(ticket, tool, TOOLS[tool])
        if answer is Answer.ADMITTED:
            self.admitted.add(ticket)
        elif answer is Answer.QUEUED:
            self.queued.append(ticket)
        else:
            assert len(self.queued) == self.queue_length

    @rule(data=st.data())
    def leave(self, data):
        known = sorted(self.admitted) + self.queued
        if not known:
            return
        ticket = data.draw(st.sampled_from(known))
        self.admitted.discard(ticket)
        self.queued = [other for other in self.queued if other != ticket]
        for promoted in self.places.leave(ticket):
            same = [other for other in self.queued if self.tool_of[other] == self.tool_of[promoted]]
            assert promoted == same[0], "overtaken by a later call of the same tool"
            self.queued.remove(promoted)
            self.admitted.add(promoted)

    @invariant()
    def bounds_hold(self):
        running = Counter(self.tool_of[ticket] for ticket in self.admitted)
        assert len(self.admitted) == self.places.admitted_count <= self.slots
        assert len(self.queued) == self.places.queued_count <= self.queue_length
        assert all(running[tool] <= concurrency for tool, concurrency in TOOLS.items())

    @invariant()
    def nobody_waits_for_nothing(self):
        running = Counter(self.tool_of[ticket] for ticket in self.admitted)
        if len(self.admitted) < self.slots:
            assert all(running[self.tool_of[t]] == TOOLS[self.tool_of[t]] for t in self.queued)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
