"""The figures of a run, each beside its goal: printed as they come, kept for RESULTS.md."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    what: str
    value: float
    unit: str = ""
    sign: str = ""  # "≥" or "≤", where there is a goal
    goal: float = 0.0

    @property
    def missed(self):
        return {"≥": self.value < self.goal, "≤": self.value > self.goal}.get(self.sign, False)

    @property
    def told(self):
        """The goal and whether it was missed."""
        return f"{self.sign} {self.goal:g}{' MISSED' if self.missed else ''}" if self.sign else ""


def digits(value):
    """About three that mean something."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


class Report:
    def __init__(self):
        self.sections = []  # title, figures, notes
        self.calls, self.rivals = [], []  # rows of the two large tables, see calls.py
        self.busy = None  # the share of the processors that other programs took while calls were measured

    def section(self, title):
        self.sections.append((title, [], []))
        print(f"\n{title}", flush=True)

    def figure(self, what, value, unit="", at_least=None, at_most=None):
        sign, goal = ("≥", at_least) if at_least is not None else ("≤", at_most) if at_most is not None else ("", 0.0)
        figure = Figure(what, value, unit, sign, goal)
        self.sections[-1][1].append(figure)
        print(f"  {what:62} {digits(value):>9} {unit:9} {figure.told}", flush=True)

    def note(self, text):
        self.sections[-1][2].append(text)
        print(f"  {text}", flush=True)

    @property
    def missed(self):
        return [(title, figure) for title, figures, _ in self.sections for figure in figures if figure.missed]
