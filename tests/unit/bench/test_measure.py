from dataclasses import dataclass, field

from executor.bench.lines import Absence
from executor.bench.measure import Measuring
from executor.bench.names import EVERYBODY, OURS, Gap
from executor.bench.peer import CallFailed
from executor.bench.plan import Cell, Plan
from executor.bench.rows import Row

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


def cell(rounds=3, calls=4, in_flight=2, seconds=60.0, **more):
    return Cell(row=ROW, in_flight=in_flight, gap=Gap.NONE, rounds=rounds, calls=calls, seconds=seconds, **more)


def plan(*cells):
    return Plan(cells=cells, probes=())


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
    assert measuring.absences([ROW], plan(cell())) == [Absence(peer="b", row="one", reason="it has no files")]


async def test_a_cell_for_some_peers_asks_nobody_else():
    peers = [Counting("a"), Counting("b")]
    lines = await Measuring(peers, seed=1).cell(cell(peers=frozenset({"a"})))
    assert ([line.peer for line in lines], peers[1].calls) == (["a"], [])


async def test_others_take_part_less_often_than_we_where_the_cell_says_so():
    peers = [Counting(OURS), Counting("b")]
    await Measuring(peers, seed=1).cell(cell(rounds=4, others_every=2))
    assert [len(peer.calls) for peer in peers] == [16, 8]


async def test_a_loop_that_may_last_no_time_starts_one_call():
    peers = [Counting("a")]
    (line,) = await Measuring(peers, seed=1).cell(cell(rounds=1, calls=0, lasting_seconds=0.0))
    assert (line.figures.samples, len(peers[0].calls)) == (1, 1)


async def test_a_loop_starts_calls_as_long_as_it_lasts():
    (line,) = await Measuring([Counting("a")], seed=1).cell(cell(rounds=1, calls=0, lasting_seconds=0.05))
    assert line.figures.samples > 2


def test_what_the_plan_does_not_ask_for_is_told_as_absent():
    measuring = Measuring([Counting("a"), Counting("b")], seed=1)
    (absent,) = measuring.absences([ROW], plan(cell(peers=frozenset({"a"}))))
    assert (absent.peer, absent.row) == ("b", "one")
    (absent,) = measuring.absences([ROW], plan())
    assert (absent.peer, absent.row) == (EVERYBODY, "one")
    assert "without --quick" in absent.reason


async def test_nobody_is_measured_before_it_is_warm():
    peers = [Counting("a"), Counting("b")]
    await Measuring(peers, seed=1).warm_up(plan(cell(peers=frozenset({"a"}))))
    assert [peer.calls for peer in peers] == [["one", "one"], []]
