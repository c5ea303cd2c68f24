from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from executor.bench.figures import SPREAD, Block, Sample, figures
from executor.bench.goals import GOAL_ROWS
from executor.bench.lines import Line
from executor.bench.names import OURS, Gap
from executor.bench.plots import latency, rate

SVG = "{http://www.w3.org/2000/svg}"


def line(peer, row, in_flight=1, gap=Gap.PAUSES, *, latencies=(1.0, 2.0, 30.0), seconds=1.0):  # noqa: PLR0913 - its fields
    samples = tuple(Sample(latency_ms=one) for one in latencies)
    return Line(
        peer=peer, row=row, in_flight=in_flight, gap=gap, figures=figures([Block(samples=samples, seconds=seconds)])
    )


def words(svg):
    return [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]  # noqa: S314 - written by us


def tags(svg, name):
    return list(ET.fromstring(svg).iter(f"{SVG}{name}"))  # noqa: S314 - written by us


def test_each_goal_row_has_a_bar_for_each_peer_with_its_median():
    svg = latency([line(peer, row) for row in GOAL_ROWS for peer in (OURS, "runc")])
    told = words(svg)
    assert [told.count(word) for word in (OURS, "runc", "2", *GOAL_ROWS)] == [3, 3, 6, 1, 1, 1]
    assert len(tags(svg, "rect")) == 1 + 6


def test_a_slower_peer_lies_further_to_the_right():
    svg = latency([line(OURS, "true", latencies=[2.0] * 9), line("runc", "true", latencies=[40.0] * 9)])
    _, ours, theirs = tags(svg, "rect")
    assert float(ours.get("x")) < float(theirs.get("x"))


def test_only_single_calls_with_pauses_of_goal_rows_are_drawn_as_bars():
    others = [line(OURS, "bash"), line(OURS, "true", in_flight=8), line(OURS, "true", gap=Gap.NONE)]
    assert len(tags(latency(others), "rect")) == 1


@pytest.mark.parametrize("plot", [latency, rate])
def test_a_plot_of_nothing_is_still_a_drawing(plot):
    assert ET.fromstring(plot([])).tag == f"{SVG}svg"  # noqa: S314 - written by us


def test_a_row_that_several_peers_ran_in_a_loop_has_a_line_for_each_of_them():
    loops = [
        line(peer, "true", count, Gap.NONE, seconds=1 / count) for count in (1, 8) for peer in (OURS, "<b>", "runc")
    ]
    svg = rate(loops)
    assert [len(curve.get("points").split()) for curve in tags(svg, "polyline")] == [2, 2, 2]
    assert "<b>" in words(svg)


def test_a_row_that_nobody_else_ran_in_a_loop_has_no_panel():
    assert tags(rate([line(OURS, "100 files", 8, Gap.NONE)]), "polyline") == []


def test_labels_of_lines_that_end_close_together_do_not_cover_each_other():
    svg = rate([line(peer, "true", 8, Gap.NONE) for peer in (OURS, "a", "b", "c")])
    heights = sorted(float(t.get("y")) for t in tags(svg, "text") if t.text in (OURS, "a", "b", "c"))
    assert all(later - earlier >= 12 for earlier, later in pairwise(heights))


def test_a_failed_line_is_left_out():
    failed = Line(peer=OURS, row="true", in_flight=1, gap=Gap.PAUSES, figures=figures([]))
    assert len(tags(latency([failed, line("runc", "true")]), "rect")) == 2
    assert len(SPREAD) == len(line("runc", "true").figures.spread_ms)
