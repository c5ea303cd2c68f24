"""The few shapes that our drawings are made of, as SVG. Pure."""

from collections.abc import Iterable
from html import escape

WIDTH = 860


def text(  # noqa: PLR0913 - what a text has
    x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal", colour: str = "#222"
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-weight="{weight}" fill="{colour}">{escape(words)}</text>'


def line(start: tuple[float, float], end: tuple[float, float], colour: str, width: float) -> str:
    places = f'x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
    return f'<line {places} stroke="{colour}" stroke-width="{width}"/>'


def drawing(title: str, parts: Iterable[str], height: int) -> str:
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    ground = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, ground, text(10, 20, title, weight="bold"), *parts, "</svg>", ""])
