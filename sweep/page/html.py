"""One HTML file with everything in it, to be mailed or opened anywhere."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 72em; color: #222 }
pre { font: 12.5px/1.35 ui-monospace, monospace; background: #f6f6f6; padding: .8em;
      overflow-x: auto }
img { max-width: 100%; display: block; margin: 1em 0 }
summary { cursor: pointer; padding: .15em 0 }
summary b { color: #b2182b } summary i { color: #2166ac; font-style: normal }
"""


def page(
    title: str,
    overview: str,
    pictures: Sequence[Path],
    sections: Sequence[tuple[str, float, str]],
    provenance: str,
) -> str:
    """Build the page.

    Parameters
    ----------
    title
        What is compared.
    overview
        Text above the pictures.
    pictures
        PNG files, embedded.
    sections
        Heading, change in percent (negative is worse, NaN unknown) and text of each group.
    provenance
        Text at the end: configuration and versions.
    """
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        f"<pre>{escape(overview)}</pre>",
    ]
    parts += [_image(path) for path in pictures]
    if sections:
        parts.append("<h2>Points, the worst first</h2>")
        parts += [_section(*section) for section in sections]
    parts.append(
        "<h2>Where it comes from</h2>"
        f"<details><summary>configuration and versions</summary><pre>{escape(provenance)}</pre>"
        "</details></body></html>\n"
    )
    return "\n".join(parts)


def _image(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{escape(path.stem)}" src="data:image/png;base64,{data}">'


def _section(heading: str, gain: float, text: str) -> str:
    mark = "b" if gain < 0 else "i"
    size = "" if gain != gain else f"<{mark}>{gain:+.1f}%</{mark}> "
    return f"<details><summary>{size}{escape(heading)}</summary><pre>{escape(text)}</pre></details>"
