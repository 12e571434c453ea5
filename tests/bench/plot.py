"""A plot of the calls table as SVG: a panel for each concurrency, a bar for each program, by its calls/s ÷ pass's."""

from html import escape

WIDTH, LEFT, RIGHT, BAR, GAP, HEAD = 720, 96, 150, 16, 5, 26
COLOURS = {"trunkline": "#2563a8", "pass": "#8a8f98", "direct": "#c9ccd1"}
STYLE = "text{font:12px system-ui,sans-serif;fill:#30343b}.h{font-weight:600}"


def svg(panels):
    """`panels` are (title, [(name, ratio or None, calls/s or None)])."""
    scale = (WIDTH - LEFT - RIGHT) / max(ratio or 0 for _, bars in panels for _, ratio, _ in bars)
    parts, y = [], 8
    for title, bars in panels:
        parts.append(f'<text class="h" x="{LEFT}" y="{y + 14}">{escape(title)}</text>')
        top = y = y + HEAD
        for name, ratio, per_s in bars:
            parts += bar(y, name, ratio, per_s, scale)
            y += BAR + GAP
        one = LEFT + scale
        parts.append(f'<line x1="{one:.1f}" x2="{one:.1f}" y1="{top - 3}" y2="{y - 2}" stroke="#30343b" stroke-dasharray="3 3"/>')
        y += 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" role="img">'
    ground = f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", ground, *parts, "</svg>"]) + "\n"


def bar(y, name, ratio, per_s, scale):
    middle = y + BAR - 4
    yield f'<text x="{LEFT - 6}" y="{middle}" text-anchor="end">{escape(name)}</text>'
    if ratio is None:
        yield f'<text x="{LEFT + 4}" y="{middle}">failed</text>'
        return
    length = max(1.0, ratio * scale)
    yield f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{COLOURS.get(name, "#b9834a")}"/>'
    told = f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.4f}"
    yield f'<text x="{LEFT + length + 5:.1f}" y="{middle}">{told} ({per_s:,.0f} calls/s)</text>'
