"""Two drawings as SVG: how latencies are distributed, and how the rate grows with the calls in flight. Pure."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

from executor.bench import svg
from executor.bench.figures import SPREAD
from executor.bench.goals import GOAL_ROWS
from executor.bench.lines import Line
from executor.bench.names import OURS, Gap

_COLOURS = (
    "#0b6e4f",
    "#8a5a00",
    "#4053a8",
    "#a83f6f",
    "#5b5b5b",
    "#0e7c99",
    "#8c3b1b",
    "#6a4c93",
    "#52720c",
    "#333333",
)
_LEFT, _RIGHT, _BAR = 120, 90, 22
_PANEL_HEIGHT = 260


@dataclass(frozen=True, slots=True)
class _Scale:
    """Logarithmic, from values to places on the drawing; whole decades, because their lines are drawn."""

    low: int
    """Exponent of 10, as `high`."""
    high: int
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    @property
    def decades(self) -> list[float]:
        return [10.0**exponent for exponent in range(self.low, self.high + 1)]


def _scale(values: Sequence[float], start: float, end: float) -> _Scale:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return _Scale(low, max(high, low + 1), start, end)


def latency(lines: Iterable[Line]) -> str:
    """A bar for each peer: from p1 to p99, in it p25 to p75, the p50 in figures. Single calls with pauses."""
    single = [one for one in lines if one.in_flight == 1 and one.gap is Gap.PAUSES and one.figures.spread_ms]
    parts: list[str] = []
    top = 34
    for row in GOAL_ROWS:
        shown = [line for line in single if line.row == row]
        if shown:
            parts.extend(_bars(row, shown, top))
            top += _BAR * len(shown) + 64
    return svg.drawing("Latency of a single call in ms: p1 to p99, box p25 to p75, mark p50", parts, top)


def _bars(row: str, lines: Sequence[Line], top: int) -> Iterator[str]:
    values = [max(value, 0.01) for line in lines for value in line.figures.spread_ms]
    scale = _scale(values, _LEFT, svg.WIDTH - _RIGHT)
    bottom = top + 22 + _BAR * len(lines)
    yield svg.text(10, top + 12, f"{row}", weight="bold")
    for value in scale.decades:
        yield svg.line((scale.at(value), top + 18), (scale.at(value), bottom), "#dddddd", 1)
        yield svg.text(scale.at(value), bottom + 14, f"{value:g}", anchor="middle")
    for number, line in enumerate(lines):
        colour = _COLOURS[0] if line.peer == OURS else _COLOURS[4]
        middle = top + 22 + _BAR * number + _BAR / 2
        spread = {percent: scale.at(max(ms, 0.01)) for percent, ms in zip(SPREAD, line.figures.spread_ms, strict=True)}
        box = (spread[25], middle - 6, max(1.0, spread[75] - spread[25]), 12.0)
        yield svg.text(_LEFT - 8, middle + 4, line.peer, anchor="end")
        yield svg.line((spread[1], middle), (spread[99], middle), colour, 1.5)
        yield f'<rect x="{box[0]}" y="{box[1]}" width="{box[2]:.1f}" height="{box[3]}" fill="{colour}" opacity="0.55"/>'
        yield svg.line((spread[50], middle - 8), (spread[50], middle + 8), colour, 2.5)
        yield svg.text(spread[99] + 6, middle + 4, f"{line.figures.p50_ms or 0:.3g}")


def rate(lines: Iterable[Line]) -> str:
    """A panel for each row: calls per second against calls in flight, a line for each peer."""
    loops = [one for one in lines if one.gap is Gap.NONE and one.figures.rate]
    rows = [row for row in dict.fromkeys(one.row for one in loops) if len({o.peer for o in loops if o.row == row}) > 1]
    colours = dict(zip(dict.fromkeys(one.peer for one in loops), cycle(_COLOURS), strict=False))
    parts: list[str] = []
    top = 34
    for row in rows:
        parts.extend(_curves(row, [line for line in loops if line.row == row], top, colours))
        top += _PANEL_HEIGHT
    return svg.drawing("Calls per second in a closed loop, against calls in flight", parts, top)


def _curves(row: str, lines: Sequence[Line], top: int, colours: Mapping[str, str]) -> Iterator[str]:
    counts = sorted({line.in_flight for line in lines})
    step = (svg.WIDTH - _LEFT - 2 * _RIGHT) / max(1, len(counts) - 1)
    across = {count: _LEFT + 20 + step * number for number, count in enumerate(counts)}
    bottom = top + _PANEL_HEIGHT - 50
    scale = _scale([line.figures.rate or 1 for line in lines], bottom, top + 24)
    yield svg.text(10, top + 12, row, weight="bold")
    for value in scale.decades:
        yield svg.line((_LEFT, scale.at(value)), (svg.WIDTH - _RIGHT, scale.at(value)), "#dddddd", 1)
        yield svg.text(_LEFT - 8, scale.at(value) + 4, f"{value:g}/s", anchor="end")
    for count in counts:
        yield svg.text(across[count], bottom + 16, str(count), anchor="middle")
    curves: dict[str, list[tuple[float, float]]] = {}
    for line in sorted(lines, key=lambda line: line.in_flight):
        curves.setdefault(line.peer, []).append((across[line.in_flight], scale.at(line.figures.rate or 1)))
    lowest: dict[float, float] = {}
    for name, curve in sorted(curves.items(), key=lambda one: one[1][-1][1]):
        (x_end, y_end), colour = curve[-1], colours[name]
        points = " ".join(f"{x:.1f},{y}" for x, y in curve)
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{3 if name == OURS else 1.5}"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y}" r="3" fill="{colour}"/>' for x, y in curve)
        lowest[x_end] = max(y_end, lowest.get(x_end, 0.0) + 13)  # labels do not cover each other
        yield svg.text(x_end + 8, lowest[x_end] + 4, name, colour=colour)
