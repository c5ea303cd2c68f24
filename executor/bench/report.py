"""What is written: the JSON of a run, and the tables for people. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from executor.bench.figures import SPREAD
from executor.bench.goals import Bound, Verdict
from executor.bench.lines import Absence, Line, Parked
from executor.bench.names import Gap

Table = Sequence[Sequence[str]]
"""The first line is the head."""
_QUEUE = "queue_ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    machine: Mapping[str, Any]
    posture: Mapping[str, Any]
    """The isolation of the sandboxes that were measured."""
    lines: tuple[Line, ...]
    parked: tuple[Parked, ...] = ()
    absences: tuple[Absence, ...]
    verdicts: tuple[Verdict, ...]
    troubles: tuple[str, ...] = ()
    """Failures outside of any call."""

    @property
    def failed(self) -> bool:
        """A call did not do what its row says, or something was left behind."""
        return bool(self.troubles) or any(line.figures.failures for line in self.lines)

    @property
    def missed(self) -> bool:
        """A goal was not met, or not measured."""
        return not all(verdict.met for verdict in self.verdicts)


def as_json(report: Report) -> dict[str, Any]:
    return {
        "machine": dict(report.machine),
        "posture": dict(report.posture),
        "goals": list(map(_goal, report.verdicts)),
        "rows": list(map(_line, report.lines)),
        "breakdown": [
            {**_at(line), "p50_ms": _rounded(line.figures.p50_ms), "parts_p50": _rounded_all(line.figures.parts_p50)}
            for line in report.lines
            if line.figures.parts_p50
        ],
        "idle_memory": [
            {
                "kind": one.kind,
                "sandboxes": one.sandboxes,
                "pss_mib": _rounded(one.pss_mib),
                "private_mib": _rounded(one.private_mib),
            }
            for one in report.parked
        ],
        "absences": [{"peer": one.peer, "row": one.row, "reason": one.reason} for one in report.absences],
        "troubles": list(report.troubles),
    }


def _goal(one: Verdict) -> dict[str, Any]:
    return {
        "name": one.name,
        "value": _rounded(one.value),
        "goal": _rounded(one.goal),
        str(one.bound): _rounded(one.goal),
        "unit": one.unit,
        "met": one.met,
        "why": one.why,
    }


def _at(line: Line) -> dict[str, Any]:
    return {"peer": line.peer, "row": line.row, "in_flight": line.in_flight, "gap": str(line.gap)}


def _line(line: Line) -> dict[str, Any]:
    one = line.figures
    return {
        **_at(line),
        "p50_ms": _rounded(one.p50_ms),
        "p95_ms": _rounded(one.p95_ms),
        "p99_ms": _rounded(one.p99_ms),
        "max_ms": _rounded(one.max_ms),
        "rate": _rounded(one.rate),
        "cpu_ms": _rounded(line.cpu.total_ms) if line.cpu else None,
        "cpu_kernel_threads_ms": _rounded(line.cpu.kernel_threads_ms) if line.cpu else None,
        "queue_ms": _rounded(one.parts_p50.get(_QUEUE)),
        "failures": one.failures,
        "samples": one.samples,
        "percentiles_ms": {str(percent): _rounded(ms) for percent, ms in zip(SPREAD, one.spread_ms, strict=False)},
        "first_failure": one.first_failure,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _rounded_all(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: _rounded(value) for name, value in values.items()}


def as_markdown(report: Report) -> str:
    sections = [
        ("Goals", markdown(goals(report.verdicts))),
        ("Single calls, 20-50 ms apart: p50 / p99 in ms", markdown(glance(report.lines))),
        ("Where the time of one call goes: p50 of each part in ms", markdown(breakdown(report.lines))),
        ("Idle memory of one parked sandbox", markdown(idle_memory(report.parked))),
        ("Everything", markdown(everything(report.lines))),
        ("Not measured", bullets(_absent(one) for one in report.absences)),
        ("Goals not measured", bullets(f"{one.name}: {one.why}" for one in report.verdicts if one.why)),
        ("Failures", bullets([*report.troubles, *_failures(report.lines)])),
    ]
    told = "\n\n".join(f"### {title}\n\n{text}" for title, text in sections if text)
    return f"{_machine(report.machine)}\n\n{told}\n"


def glance(lines: Sequence[Line]) -> Table:
    """A line for each peer, a column for each row."""
    chosen = {(line.peer, line.row): line for line in lines if line.in_flight == 1 and line.gap is Gap.PAUSES}
    peers, rows = (list(dict.fromkeys(key[part] for key in chosen)) for part in (0, 1))
    return [
        ["peer", *(f"`{row}`" for row in rows)],
        *([peer, *(_two(chosen.get((peer, row))) for row in rows)] for peer in peers),
    ]


def _two(line: Line | None) -> str:
    return "-" if line is None else f"{_number(line.figures.p50_ms)} / {_number(line.figures.p99_ms)}"


def breakdown(lines: Sequence[Line]) -> Table:
    """Whatever parts there are, by their own names; the last is what no part tells."""
    told = [line for line in lines if line.figures.parts_p50]
    names = dict.fromkeys(name for line in told for name in line.figures.parts_p50)
    return [
        ["peer", "row", "in flight", "gap", *(name.removesuffix("_ms") for name in names), "p50"],
        *(
            [
                *_place(line),
                *(_number(line.figures.parts_p50.get(name)) for name in names),
                _number(line.figures.p50_ms),
            ]
            for line in told
        ),
    ]


def goals(verdicts: Iterable[Verdict]) -> Table:
    words = {Bound.AT_MOST: "at most", Bound.AT_LEAST: "at least"}
    return [
        ["goal", "measured", "wanted", ""],
        *(
            [
                one.name,
                "not measured" if one.value is None else f"{_number(one.value)} {one.unit}",
                f"{words[one.bound]} {_number(one.goal)} {one.unit}",
                "met" if one.met else "MISSED",
            ]
            for one in verdicts
        ),
    ]


def idle_memory(parked: Iterable[Parked]) -> Table:
    return [
        ["kind", "sandboxes", "PSS MiB", "private MiB"],
        *([one.kind, str(one.sandboxes), _number(one.pss_mib), _number(one.private_mib)] for one in parked),
    ]


def everything(lines: Sequence[Line]) -> Table:
    head = ["p50 ms", "p95 ms", "p99 ms", "max ms", "calls/s", "CPU-ms", "queue ms", "samples", "failures"]
    return [["peer", "row", "in flight", "gap", *head], *([*_place(line), *_columns(line)] for line in lines)]


def _place(line: Line) -> list[str]:
    return [line.peer, f"`{line.row}`", str(line.in_flight), str(line.gap)]


def _columns(line: Line) -> list[str]:
    one = line.figures
    cpu_ms = line.cpu.total_ms if line.cpu else None
    measured = (one.p50_ms, one.p95_ms, one.p99_ms, one.max_ms, one.rate, cpu_ms, one.parts_p50.get(_QUEUE))
    return [*map(_number, measured), str(one.samples), str(one.failures)]


def _number(value: float | None) -> str:
    """Three digits that mean something."""
    if value is None:
        return "-"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 or not value else 3  # noqa: PLR2004
    return f"{value:.{digits}f}"


def markdown(table: Table) -> str:
    """Empty where there is only a head; columns are padded, so that it reads well as it is."""
    if len(table) < 2:  # noqa: PLR2004 - head and one line
        return ""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    head, *rest = (
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in table
    )
    return "\n".join([head, "| " + " | ".join("-" * width for width in widths) + " |", *rest])


def bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _absent(one: Absence) -> str:
    return f"{one.peer}{f', `{one.row}`' if one.row else ''}: {one.reason}"


def _failures(lines: Iterable[Line]) -> list[str]:
    return [
        f"{' '.join(_place(line))}: {line.figures.failures} failed, the first: {line.figures.first_failure}"
        for line in lines
        if line.figures.failures
    ]


def _machine(machine: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in machine.items() if isinstance(value, str | int | float))
