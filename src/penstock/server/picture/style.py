"""The style of a picture, by variables that a page may set; alone, an SVG follows the reader's choice."""

from pathlib import Path

LIGHT = {
    "ink": "#1c2733",
    "quiet": "#5b6875",
    "line": "#cfd7df",
    "face": "#ffffff",
    "ground": "#f6f8fa",
    "flow": "#7fa6c9",
    "accent": "#0b6e99",
    "warm": "#a34a07",
    "shade": "#e8eef3",
}
DARK = {
    "ink": "#e6edf3",
    "quiet": "#9aa7b4",
    "line": "#36424e",
    "face": "#1a222b",
    "ground": "#12181f",
    "flow": "#4d7ba3",
    "accent": "#5cb8e4",
    "warm": "#f0a14a",
    "shade": "#26313c",
}


def variables(colours: dict[str, str]) -> str:
    """Colours as variables of CSS."""
    return "".join(f"--ps-{name}:{value};" for name, value in colours.items())


STYLE = (
    f":where(:root){{{variables(LIGHT)}}}"
    f"@media (prefers-color-scheme: dark){{:where(svg:root){{{variables(DARK)}}}}}"
    f"{(Path(__file__).parent / 'style.css').read_text(encoding='utf-8').partition('*/')[2]}"
)
