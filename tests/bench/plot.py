"""A plot of the calls table as SVG: a panel for each concurrency, a bar for each program, by its calls/s ÷ pass's."""

from html import escape

WIDTH, LEFT, RIGHT, BAR, GAP, HEAD = 720, 96, 150, 16, 5, 26
COLOURS = {"trunkline": "#2563a8", "pass": "#8a8f98", "direct": "#c9ccd1"}
STYLE = "text{font:12px system-ui,sans-serif;fill:#30343b;paint-order:stroke;stroke:#fff;stroke-width:4px}.h{font-weight:600}"


def svg(panels):
    """`panels` are (title, [(name, ratio or None, calls/s or None)])."""
    scale = (WIDTH - LEFT - RIGHT) / max(ratio or 0 for _, bars in panels for _, ratio, _ in bars)
    parts, y = [], 8
    for title, bars in panels:
        parts.append(f'<text class="h" x="{LEFT}" y="{y + 14}">{escape(title)}</text>')
        y += HEAD
        end, one = y + len(bars) * (BAR + GAP), LEFT + scale
        rows = [(y + n * (BAR + GAP), *bar) for n, bar in enumerate(bars)]
        parts += [bar(at, name, ratio, scale) for at, name, ratio, _ in rows]
        parts.append(f'<line x1="{one:.1f}" x2="{one:.1f}" y1="{y - 3}" y2="{end - 2}" stroke="#30343b" stroke-dasharray="3 3"/>')
        parts += [label(at, *row, scale) for at, *row in rows]
        y = end + 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" role="img">'
    ground = f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", ground, *parts, "</svg>"]) + "\n"


def bar(y, name, ratio, scale):
    length = max(1.0, (ratio or 0) * scale)
    return f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{COLOURS.get(name, "#b9834a")}"/>'


def label(y, name, ratio, per_s, scale):
    middle, right = y + BAR - 4, LEFT + 5 + (ratio or 0) * scale
    share = "failed" if ratio is None else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.4f}"
    told = share if per_s is None else f"{share} ({per_s:,.0f} calls/s)"
    return (f'<text x="{LEFT - 6}" y="{middle}" text-anchor="end">{escape(name)}</text>'
            f'<text x="{right:.1f}" y="{middle}">{told}</text>')
