"""What is written: the JSON of a run, and the tables for people. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .figures import PARTS, REST
from .goals import Verdict
from .lines import Absence, Line
from .plan import Gap

Table = Sequence[Sequence[str]]
"""The first line is the head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    machine: Mapping[str, Any]
    posture: Mapping[str, Any]
    """The isolation of the sandboxes that were measured."""
    lines: tuple[Line, ...]
    absences: tuple[Absence, ...]
    verdicts: tuple[Verdict, ...]
    troubles: tuple[str, ...] = ()
    """Failures outside of any call."""

    @property
    def good(self) -> bool:
        failed = any(line.figures.failures for line in self.lines) or self.troubles
        return not failed and all(verdict.met for verdict in self.verdicts)


def as_json(report: Report) -> dict[str, Any]:
    return {
        "machine": dict(report.machine),
        "posture": dict(report.posture),
        "goals": [
            {"name": one.name, "value": _rounded(one.value), "goal": one.goal, "unit": one.unit, "met": one.met}
            for one in report.verdicts
        ],
        "rows": [_line(line) for line in report.lines],
        "absent": [{"peer": one.peer, "row": one.row, "reason": one.reason} for one in report.absences],
        "troubles": list(report.troubles),
    }


def _line(line: Line) -> dict[str, Any]:
    one = line.figures
    return {
        "peer": line.peer,
        "row": line.row,
        "in_flight": line.in_flight,
        "gap": str(line.gap),
        "p50_ms": _rounded(one.p50_ms),
        "p95_ms": _rounded(one.p95_ms),
        "p99_ms": _rounded(one.p99_ms),
        "max_ms": _rounded(one.max_ms),
        "rate": _rounded(one.rate),
        "cpu_ms": _rounded(line.cpu.total_ms) if line.cpu else None,
        "cpu_kernel_threads_ms": _rounded(line.cpu.kernel_threads_ms) if line.cpu else None,
        "failures": one.failures,
        "samples": one.samples,
        "parts_p50": {name: _rounded(value) for name, value in one.parts_p50.items()},
        "first_failure": one.first_failure,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def as_markdown(report: Report) -> str:
    sections = [
        ("Single calls, 20-50 ms apart: p50 / p99 in ms", markdown(glance(report.lines))),
        ("Where the time of one call goes: p50 of each part in ms", markdown(breakdown(report.lines))),
        ("Everything", markdown(everything(report.lines))),
        ("Not measured", bullets(_absent(one) for one in report.absences)),
        ("Goals", bullets(map(_verdict, report.verdicts))),
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
    names = (*PARTS, REST)
    told = [line for line in lines if line.figures.parts_p50]
    head = ["peer", "row", "in flight", "gap", *(name.removesuffix("_ms") for name in names), "p50"]
    return [
        head,
        *(
            [*_place(line), *(_number(line.figures.parts_p50[name]) for name in names), _number(line.figures.p50_ms)]
            for line in told
        ),
    ]


def everything(lines: Sequence[Line]) -> Table:
    head = ["p50 ms", "p95 ms", "p99 ms", "max ms", "calls/s", "CPU-ms", "samples", "failures"]
    return [["peer", "row", "in flight", "gap", *head], *([*_place(line), *_columns(line)] for line in lines)]


def _place(line: Line) -> list[str]:
    return [line.peer, f"`{line.row}`", str(line.in_flight), str(line.gap)]


def _columns(line: Line) -> list[str]:
    one = line.figures
    measured = (one.p50_ms, one.p95_ms, one.p99_ms, one.max_ms, one.rate, line.cpu.total_ms if line.cpu else None)
    return [*map(_number, measured), str(one.samples), str(one.failures)]


def _number(value: float | None) -> str:
    """Three digits that mean something."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"  # noqa: PLR2004


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


def _verdict(one: Verdict) -> str:
    measured = "not measured" if one.value is None else f"{_number(one.value)} {one.unit}"
    return f"{'met' if one.met else 'MISSED'}: {one.name}: {measured} (at most {one.goal:g} {one.unit})"


def _failures(lines: Iterable[Line]) -> list[str]:
    return [
        f"{' '.join(_place(line))}: {line.figures.failures} failed, the first: {line.figures.first_failure}"
        for line in lines
        if line.figures.failures
    ]


def _machine(machine: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in machine.items() if isinstance(value, str | int | float))
