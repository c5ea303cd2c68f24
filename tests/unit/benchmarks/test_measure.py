from dataclasses import dataclass, field

from benchmarks.harness.lines import Absence
from benchmarks.harness.measure import Measuring
from benchmarks.harness.peer import CallFailed
from benchmarks.harness.plan import Cell, Gap
from benchmarks.harness.rows import Row

ROW = Row(name="one", tool="python")


@dataclass
class Counting:
    """A peer that counts its calls and how many ran at one time."""

    name: str
    every: int = 1
    most_in_flight: int = 100
    processes: frozenset[int] = frozenset()
    refusal: str | None = None
    fails: bool = False
    calls: list[str] = field(default_factory=list)

    def refuses(self, row):  # noqa: ARG002 - as a peer has it
        return self.refusal

    async def call(self, row):
        self.calls.append(row.name)
        if self.fails:
            raise CallFailed("exit status 1")
        return {}


def cell(rounds=3, calls=4, in_flight=2, seconds=60.0):
    return Cell(row=ROW, in_flight=in_flight, gap=Gap.NONE, rounds=rounds, calls=calls, seconds=seconds)


async def test_each_peer_is_called_as_often_as_the_cell_says():
    peers = [Counting("a"), Counting("b", every=2)]
    lines = await Measuring(peers, seed=1).cell(cell())
    assert [len(peer.calls) for peer in peers] == [12, 8]
    assert [(line.peer, line.figures.samples) for line in lines] == [("a", 12), ("b", 8)]


async def test_a_call_that_fails_is_counted_and_does_not_end_the_run():
    (line,) = await Measuring([Counting("a", fails=True)], seed=1).cell(cell())
    assert (line.figures.samples, line.figures.failures, line.figures.first_failure) == (0, 12, "exit status 1")


async def test_when_the_time_is_up_the_round_is_finished_for_all_peers():
    peers = [Counting("a"), Counting("b")]
    await Measuring(peers, seed=1).cell(cell(rounds=50, seconds=0.0))
    assert [len(peer.calls) for peer in peers] == [4, 4]


async def test_a_peer_is_left_out_where_it_cannot_run_the_row_or_so_many_at_a_time():
    peers = [Counting("a"), Counting("b", refusal="it has no files"), Counting("c", most_in_flight=1)]
    measuring = Measuring(peers, seed=1)
    assert [line.peer for line in await measuring.cell(cell())] == ["a"]
    assert measuring.absences([ROW]) == [Absence(peer="b", row="one", reason="it has no files")]


async def test_nobody_is_measured_before_it_is_warm():
    peers = [Counting("a")]
    await Measuring(peers, seed=1).warm_up([ROW])
    assert peers[0].calls == ["one", "one"]
